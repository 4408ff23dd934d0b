package mongobackend_test

import (
	"errors"

	"go.mongodb.org/mongo-driver/v2/mongo"
)

func asCommandError(err error, ce *mongo.CommandError) bool { return errors.As(err, ce) }
