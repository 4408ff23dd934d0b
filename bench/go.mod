module github.com/admitd/admitd/bench

go 1.26.0

require (
	github.com/admitd/admitd v0.0.0
	go.mongodb.org/mongo-driver/v2 v2.9.3
)

require (
	github.com/go-chi/chi/v5 v5.5.0 // indirect
	github.com/klauspost/compress v1.20.1 // indirect
	github.com/pires/go-proxyproto v0.15.0 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)

replace github.com/admitd/admitd => ../
