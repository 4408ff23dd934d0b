module github.com/admitd/admitd/proving/faults

go 1.26.0

require github.com/admitd/admitd v0.0.0

require (
	github.com/klauspost/compress v1.20.1 // indirect
	go.mongodb.org/mongo-driver/v2 v2.9.3 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace github.com/admitd/admitd => ../..
