package mongogate

// class groups commands for cost and treatment.
type class uint8

// The classes.
const (
	classOther class = iota
	classRead
	classWrite
	classAdmin
	classRelease   // gives resources back: counted, never refused
	classHello     // never gated, the reply is looked into
	classAuth      // never gated, the reply is looked into
	classUngated   // never gated
	classFailPoint // answered by the gate under [Options.TestCommands]
)

// costClasses are the classes as [Options.Costs] spells them.
func costClasses() map[string]class {
	return map[string]class{
		"other": classOther, "read": classRead, "write": classWrite, "admin": classAdmin, "release": classRelease,
	}
}

// commandNames lists the commands of each class. What is missing is
// classOther, and gated.
func commandNames() map[class][]string {
	return map[class][]string{
		classRead: {
			"find", "getMore", "aggregate", "count", "distinct", "explain", "listCollections", "listDatabases",
			"listIndexes", "dbStats", "collStats", "mapReduce", "geoSearch",
		},
		classWrite: {"insert", "update", "delete", "findAndModify", "findandmodify", "bulkWrite"},
		classAdmin: {
			"create", "createIndexes", "drop", "dropDatabase", "dropIndexes", "collMod", "renameCollection",
			"compact", "reIndex", "validate", "convertToCapped",
		},
		classRelease: {
			"killCursors", "endSessions", "abortTransaction", "commitTransaction", "killSessions",
			"killAllSessions", "killAllSessionsByPattern",
		},
		classHello: {"hello", "isMaster", "ismaster"},
		classAuth:  {"saslStart", "saslContinue", "authenticate"},
		classUngated: {
			"getnonce", "logout",
		},
	}
}

// command is what the gate knows of a command before it sees one.
type command struct {
	class  class
	cost   float64
	exempt bool
}

// commandTable maps names to what is known of them.
type commandTable struct {
	byName map[string]command
	other  command
}

// newCommandTable prepares the table for the options.
func newCommandTable(o *Options) commandTable {
	classCost := map[class]float64{}
	for name, c := range costClasses() {
		classCost[c] = o.Costs[name]
	}
	t := commandTable{byName: map[string]command{}, other: command{cost: classCost[classOther]}}
	for c, names := range commandNames() {
		for _, name := range names {
			t.byName[name] = command{class: c, cost: classCost[c], exempt: c == classRelease}
		}
	}
	classes := costClasses()
	for name, cost := range o.Costs {
		if _, isClass := classes[name]; !isClass {
			k := t.find([]byte(name))
			k.cost = cost
			t.byName[name] = k
		}
	}
	for _, name := range o.Exempt.Commands {
		k := t.find([]byte(name))
		k.exempt = true
		t.byName[name] = k
	}
	if o.TestCommands {
		t.byName["configureFailPoint"] = command{class: classFailPoint}
		t.byName["killAllSessions"] = command{class: classFailPoint}
	}
	return t
}

// find returns what is known of the command.
func (t *commandTable) find(name []byte) command {
	if k, ok := t.byName[string(name)]; ok {
		return k
	}
	return t.other
}
