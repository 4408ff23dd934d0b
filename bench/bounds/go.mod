module github.com/admitd/admitd/bench/bounds

go 1.26
