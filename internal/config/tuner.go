package config

// Tuner configures the policy engine that moves rates and limits as signals of
// the backend, its host and the gate say. Without policies it does nothing.
type Tuner struct {
	// How far it goes: advise says what it would do and why, act does it, off
	// reads nothing.
	Mode string `yaml:"mode" default:"advise" enum:"off advise act"`
	// File that every decision is appended to, one JSON document per line.
	// Empty: decisions are kept in memory only, the last 512 of them.
	AuditFile string `yaml:"auditFile" default:""`
	// What is read.
	Signals []TunerSignal `yaml:"signals"`
	// Which settings move, and why.
	Policies []TunerPolicy `yaml:"policies"`
	// How changes are watched, and taken back.
	Trial TunerTrial `yaml:"trial"`
}

// TunerSignal is one number that is read again and again.
type TunerSignal struct {
	// Unique name; a label of metrics.
	Name string `yaml:"name" required:"true"`
	// Where it comes from. host: the machine of the gate, or a control group
	// of it; scrape: a Prometheus text endpoint; prometheus: a PromQL query;
	// mongodb: a status command; postgres: a SQL query; http: a JSON document;
	// gate: an ingress of this gate.
	Source string `yaml:"source" default:"host" enum:"host scrape prometheus mongodb postgres http gate" selects:"true"`
	// What is read. host: cpu, psi_cpu, psi_io, psi_memory, memory, load,
	// run_queue, disk (shares, 1 is all there is) or network (bytes per
	// second). scrape: the name of the metric; several series are summed.
	// gate: p50, p99 (seconds), refused, goodput (per second), inFlight or
	// queued.
	Metric string `yaml:"metric" required:"true" for:"host scrape gate"`
	// Directory of a control group (version 2), such as
	// /sys/fs/cgroup/system.slice/mongod.service, for cpu, psi_cpu, psi_io,
	// psi_memory and memory. Empty: the whole machine.
	Cgroup string `yaml:"cgroup" default:"" for:"host"`
	// Where to ask. It may not hold a password; mongodb and postgres take one
	// from urlFile. The values of its query, which may hold a key, are never shown.
	URL string `yaml:"url" default:"" for:"scrape prometheus mongodb postgres http"`
	// File that holds the URL, for one with a password.
	URLFile string `yaml:"urlFile" default:"" reads:"file" for:"mongodb postgres"`
	// File with a bearer token that is sent along.
	TokenFile string `yaml:"tokenFile" default:"" reads:"file" for:"scrape prometheus http"`
	// Labels that a series must have.
	Labels map[string]string `yaml:"labels" for:"scrape"`
	// Quantile of a classic histogram over what was observed between two
	// readings; 0 = the metric is no histogram.
	HistogramQuantile float64 `yaml:"histogramQuantile" default:"0" min:"0" below:"1" for:"scrape"`
	// PromQL with one result, or SQL that returns one number.
	Query string `yaml:"query" required:"true" for:"prometheus postgres"`
	// The command: serverStatus or replSetGetStatus.
	Command string `yaml:"command" default:"serverStatus" enum:"serverStatus replSetGetStatus" for:"mongodb"`
	// Path to the number: names joined by dots, [2] for an element of a list,
	// * to sum over all. For replSetGetStatus also lag: seconds by which the
	// slowest secondary follows.
	Path string `yaml:"path" required:"true" for:"mongodb http"`
	// The ingress that is looked at.
	Ingress string `yaml:"ingress" required:"true" for:"gate"`
	// rate: what is read is a counter, and the signal its growth per second.
	As string `yaml:"as" default:"value" enum:"value rate" for:"scrape prometheus mongodb postgres http"`
	// Span over which readings are summed up; 0 = the last one alone.
	Window Duration `yaml:"window" default:"0s" min:"0s" max:"1h"`
	// Quantile of the window; 0 = its average.
	Quantile float64 `yaml:"quantile" default:"0" min:"0" max:"1"`
	// Time between two readings.
	Every Duration `yaml:"every" default:"5s" min:"1s" max:"1h" for:"host scrape prometheus mongodb postgres http"`
	// How long one reading may take.
	Timeout Duration `yaml:"timeout" default:"3s" min:"10ms" max:"1m" for:"host scrape prometheus mongodb postgres http"`
	// Age beyond which the newest reading is not trusted: at least every, or for
	// the gate's own a twentieth of trial.for.
	MaxAge Duration `yaml:"maxAge" default:"30s" min:"1s" max:"24h"`
	// Least value that can be. Both bounds 0 = none.
	Min float64 `yaml:"min" default:"0"`
	// Greatest value that can be. Both bounds 0 = none; for shares of the
	// host 1.
	Max float64 `yaml:"max" default:"0"`
	// How long the reading may stand still, unless at min or max, before the
	// signal is not trusted; 0 = for ever.
	StuckFor Duration `yaml:"stuckFor" default:"0s" min:"0s" max:"24h"`
	// Factor by which a reading may differ from the median of the window;
	// beyond it three in a row are needed. Negative = any.
	Spike float64 `yaml:"spike" default:"10" min:"-1" max:"1e9"`
}

// TunerPolicy moves one setting, or several of a kind.
type TunerPolicy struct {
	// Unique name; a label of metrics.
	Name string `yaml:"name" required:"true"`
	// threshold: lower while a signal is above a bound, and back when it is
	// below another. target: keep a signal at a value. backlog: rate =
	// acceptableBacklog / backlog × drain, within minimumLimit and limit.
	// objective: keep a latency below what was promised. schedule: a bound by
	// the hour.
	Kind string `yaml:"kind" default:"threshold" enum:"threshold target backlog objective schedule" selects:"true"`
	// The signal; for backlog the number of records that wait.
	Signal string `yaml:"signal" required:"true" for:"threshold target backlog objective"`
	// Signal of the records that are drained per second.
	Drain string `yaml:"drain" required:"true" for:"backlog"`
	// Value that the signal is kept at.
	Target float64 `yaml:"target" required:"true" min:"1e-9" max:"1e18" for:"target"`
	// The signal is too high above this.
	Above float64 `yaml:"above" required:"true" for:"threshold"`
	// The signal is well below this.
	Below float64 `yaml:"below" required:"true" for:"threshold"`
	// How long it must be so.
	For Duration `yaml:"for" default:"0s" min:"0s" max:"1h" for:"threshold"`
	// The signal falls as load grows, such as free tickets.
	Inverted bool `yaml:"inverted" default:"false" for:"threshold target"`
	// Records that may wait.
	AcceptableBacklog float64 `yaml:"acceptableBacklog" required:"true" min:"1" max:"1e18" for:"backlog"`
	// Least rate.
	MinimumLimit float64 `yaml:"minimumLimit" required:"true" min:"0.001" max:"1e9" for:"backlog"`
	// Greatest rate: the static limit while nothing waits.
	Limit float64 `yaml:"limit" required:"true" min:"0.001" max:"1e9" for:"backlog"`
	// Time in which the limit grows from minimumLimit after the start.
	RampUp Duration `yaml:"rampUp" default:"0s" min:"0s" max:"24h" for:"backlog"`
	// Time between two looks at the backlog.
	Resolution Duration `yaml:"resolution" default:"15s" min:"1s" max:"1h" for:"backlog"`
	// Latency that was promised; the signal is one, in seconds.
	Objective Duration `yaml:"objective" required:"true" min:"100us" max:"1h" for:"objective"`
	// When which bound holds.
	Hours []TunerHours `yaml:"hours" required:"true" for:"schedule"`
	// Time zone of the hours, such as Europe/Berlin.
	Zone string `yaml:"zone" default:"UTC" for:"schedule"`
	// The setting: INGRESS.requests.rate, INGRESS.connections.maxOpen,
	// INGRESS.partitions.NAME.limit.maxLimit and the like. * stands for every
	// ingress or partition.
	Adjust string `yaml:"adjust" required:"true"`
	// Lets it adjust INGRESS.mode, which it moves only towards refusing less:
	// enforce is 2, shadow 1, off 0.
	AllowMode bool `yaml:"allowMode" default:"false"`
	// Least value that the policy sets. Where 0 means something else, such as
	// without bound, at least the smallest value that has an effect: 0.001 for
	// rates and durations (in seconds), 1 for whole numbers.
	Min float64 `yaml:"min" required:"true" min:"0" max:"1e9" for:"threshold target objective schedule"`
	// Greatest value that the policy sets.
	Max float64 `yaml:"max" required:"true" min:"0" max:"1e9" for:"threshold target objective schedule"`
	// Largest share of the value by which it moves at once.
	Step float64 `yaml:"step" required:"true" min:"0.001" below:"1" for:"threshold target objective"`
	// Least time between two moves of the setting.
	Cooldown Duration `yaml:"cooldown" default:"10s" min:"1s" max:"24h" for:"threshold target objective schedule"`
}

// TunerHours is a part of the day in which a bound holds.
type TunerHours struct {
	// When it begins, such as 08:00.
	From string `yaml:"from" required:"true"`
	// When it ends; before from, on the next day.
	To string `yaml:"to" required:"true"`
	// Days on which it begins: mon, tue, wed, thu, fri, sat, sun. Empty: all.
	Days []string `yaml:"days" enum:"mon tue wed thu fri sat sun" single:"true"`
	// The setting is at most this. At least what min must be.
	Bound float64 `yaml:"bound" required:"true" min:"0" max:"1e9"`
}

// TunerTrial says how changes are watched.
type TunerTrial struct {
	// Moves the first of several settings first, and the others when it did
	// well: after one cooldown downwards, after the trial upwards.
	Canary bool `yaml:"canary" default:"true"`
	// How long a change is watched.
	For Duration `yaml:"for" default:"1m" min:"10s" max:"1h"`
	// What must not get worse.
	Objective TunerObjective `yaml:"objective"`
}

// TunerObjective is a latency that must be kept while changes are tried.
type TunerObjective struct {
	// Ingress that is looked at. Empty: the one that is moved.
	Ingress string `yaml:"ingress" default:""`
	// The 99th percentile of the latency. 0 = the objective of the ingress; without one only goodput is
	// looked at.
	P99 Duration `yaml:"p99" default:"0s" min:"0s" max:"1h"`
}
