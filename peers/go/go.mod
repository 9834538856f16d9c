module bytegauge/peers/go

go 1.22

require golang.org/x/sys v0.28.0
