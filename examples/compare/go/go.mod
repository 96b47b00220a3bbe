module notes

go 1.21

require trunkline v0.0.0

replace trunkline => ../../go/trunkline
