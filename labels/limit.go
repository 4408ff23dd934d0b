package labels

// Limit names the limit that refused a request: whose it is, not how it works.
// The zero value says that it is not told.
type Limit string

// The limits, as they appear in rejections and metrics.
const (
	// ByPartition: the rate or the concurrency limit of the request's partition.
	ByPartition Limit = "partition"
	// ByTotal: the bound on permits over all partitions of the ingress.
	ByTotal Limit = "total"
	// ByIngress: the rate of the whole ingress, or its being drained.
	ByIngress Limit = "ingress"
	// ByFleet: a rate or a concurrency limit that several gates share.
	ByFleet Limit = "fleet"
)
