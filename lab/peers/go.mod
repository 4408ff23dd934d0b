module github.com/admitd/admitd/lab/peers

go 1.26.0

require (
	github.com/admitd/admitd v0.0.0
	github.com/failsafe-go/failsafe-go v0.9.8
	github.com/platinummonkey/go-concurrency-limits v1.0.0
)

require (
	github.com/HdrHistogram/hdrhistogram-go v1.4.0 // indirect
	github.com/bits-and-blooms/bitset v1.24.4 // indirect
	github.com/goccy/go-yaml v1.19.2 // indirect
	github.com/influxdata/tdigest v0.0.1 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/admitd/admitd => ../..
