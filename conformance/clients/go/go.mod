module trunkline.invalid/events

go 1.21
