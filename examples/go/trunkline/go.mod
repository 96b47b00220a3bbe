module trunkline

go 1.21
