module github.com/admitd/admitd/proving/incidents

go 1.26.0
