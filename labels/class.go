package labels

// Class says who goes first when not everything fits. The zero value says that
// nobody told.
type Class uint8

// The classes, the most important first.
const (
	// Unclassed: nobody told; the default of the ingress counts.
	Unclassed Class = iota
	// CriticalPlus: users suffer at once and visibly.
	CriticalPlus
	// Critical: what production sends, and the default.
	Critical
	// SheddablePlus: may be refused for minutes, such as batches that retry.
	SheddablePlus
	// Sheddable: may be refused for long, and often.
	Sheddable
	// ExemptClass: counted, and never refused.
	ExemptClass
	// UnknownClass: a word was told that is no class; the default counts.
	UnknownClass
)

// classWords are the classes as configuration, metrics and documents spell them.
var classWords = [...]string{ //nolint:gochecknoglobals // a table
	CriticalPlus: "critical-plus", Critical: "critical", SheddablePlus: "sheddable-plus", Sheddable: "sheddable",
	ExemptClass: "exempt", UnknownClass: "unknown",
}

// Classes returns the classes that a request can have in the end, in their order.
func Classes() []Class {
	return []Class{CriticalPlus, Critical, SheddablePlus, Sheddable, ExemptClass}
}

// ParseClass returns the class of a word, [UnknownClass] for any other word and
// [Unclassed] for none.
func ParseClass[T ~string | ~[]byte](word T) Class {
	switch string(word) {
	case "":
		return Unclassed
	case "critical-plus":
		return CriticalPlus
	case "critical":
		return Critical
	case "sheddable-plus":
		return SheddablePlus
	case "sheddable":
		return Sheddable
	case "exempt":
		return ExemptClass
	}
	return UnknownClass
}

// String returns the class as it is spelled everywhere, "" for [Unclassed].
func (c Class) String() string {
	if int(c) < len(classWords) {
		return classWords[c]
	}
	return ""
}
