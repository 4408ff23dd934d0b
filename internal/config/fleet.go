package config

// Fleet says how this gate shares rates and limits with others.
type Fleet struct {
	// Where the shared state lies. Without addresses nothing is shared.
	Redis FleetRedis `yaml:"redis"`
	// Gates of one group share what bears the same ingress name. Letters, digits,
	// dot, dash, underscore; at most 64.
	Group string `yaml:"group" default:"default"`
	// Time between two calls of Redis.
	Interval Duration `yaml:"interval" default:"200ms" min:"20ms" max:"10s"`
	// How long a gate goes on at its last share when Redis does not answer; at
	// least twice the interval.
	Lease Duration `yaml:"lease" default:"2s" min:"100ms" max:"5m"`
	// How many gates there are at least. The part of those that the group does not
	// see is kept back for them, unless fallback is closed or open.
	Gates int `yaml:"gates" default:"1" min:"1" max:"10000"`
	// What a gate does without a lease. fair: its part of the rate, divided by
	// the gates seen last. share: the share that it had last. closed: refuses.
	// open: admits.
	Fallback string `yaml:"fallback" default:"fair" enum:"fair share closed open"`
}

// FleetRedis says where the shared state lies. Credentials are read from their
// files at every connect.
type FleetRedis struct {
	// host:port of the server, of its sentinels, or of nodes of the cluster.
	Addresses []string `yaml:"addresses" single:"true"`
	// Name that the sentinels know the server by. Empty: the addresses are not
	// sentinels.
	Master string `yaml:"master" default:""`
	// The addresses are nodes of a Redis Cluster.
	Cluster bool `yaml:"cluster" default:"false"`
	// User of the server. Empty: the default user.
	Username string `yaml:"username" default:""`
	// File with the user's password. Empty: none is sent.
	PasswordFile string `yaml:"passwordFile" default:"" reads:"file"`
	// User of the sentinels. Empty: the default user.
	SentinelUsername string `yaml:"sentinelUsername" default:""`
	// File with its password. Empty: none is sent.
	SentinelPasswordFile string `yaml:"sentinelPasswordFile" default:"" reads:"file"`
	// TLS towards Redis and the sentinels.
	TLS FleetTLS `yaml:"tls"`
}

// FleetTLS configures TLS towards Redis.
type FleetTLS struct {
	// Speaks TLS to Redis.
	Enabled bool `yaml:"enabled" default:"false"`
	// PEM file with the authorities that its certificate must come from. Empty:
	// those of the system.
	CAFile string `yaml:"caFile" default:"" reads:"file"`
	// PEM file with the gate's own certificate chain.
	CertFile string `yaml:"certFile" default:"" reads:"file"`
	// PEM file with the gate's own private key.
	KeyFile string `yaml:"keyFile" default:"" reads:"file"`
	// Name that the certificate must bear. Empty: the host of the address.
	ServerName string `yaml:"serverName" default:""`
}

// SharesLimit reports whether the limit of any partition is that of all gates.
func (p *Partitions) SharesLimit() bool {
	for i := range p.Named {
		if p.Named[i].Limit.Shared {
			return true
		}
	}
	return p.Default.Limit.Shared
}

// checkFleet checks the group, and that what is shared can be.
func checkFleet(v validator, c *Config) {
	f := &c.Fleet
	v.name("fleet.group", f.Group)
	if f.Lease < 2*f.Interval {
		v.relate("must be at least twice the interval", f.Lease, "fleet.lease", "fleet.interval")
	}
	for i, a := range f.Redis.Addresses {
		v.address(element("fleet.redis.addresses", i), a)
	}
	if f.Redis.Master != "" && f.Redis.Cluster {
		v.relate("excludes cluster: sentinels watch over one server", f.Redis.Master, "fleet.redis.master", "fleet.redis.cluster")
	}
	if t := f.Redis.TLS; (t.CertFile == "") != (t.KeyFile == "") {
		v.relate("needs both certFile and keyFile", nil, "fleet.redis.tls.certFile", "fleet.redis.tls.keyFile")
	}
	for i := range c.Ingresses {
		checkShared(v, element("ingresses", i), c, &c.Ingresses[i])
	}
}

// checkShared checks that what is shared of an ingress has a rate, and a group to
// share it with.
func checkShared(v validator, path string, c *Config, in *Ingress) {
	see := func(at string, shared bool, rate float64) {
		switch {
		case !shared:
		case len(c.Fleet.Redis.Addresses) == 0:
			v.relate("needs fleet.redis.addresses", true, at+".shared", "fleet.redis.addresses")
		case rate <= 0:
			v.relate("needs a rate", true, at+".shared", at+".rate")
		}
	}
	limit := func(at string, l *Limit) {
		if l.Shared && len(c.Fleet.Redis.Addresses) == 0 {
			v.relate("needs fleet.redis.addresses", true, at+".limit.shared", "fleet.redis.addresses")
		}
	}
	limit(path+".partitions.default", &in.Partitions.Default.Limit)
	see(path+".requests", in.Requests.Shared, in.Requests.Rate)
	see(path+".connections", in.Connections.Shared, in.Connections.Rate)
	see(path+".partitions.default", in.Partitions.Default.Shared, in.Partitions.Default.Rate)
	for i := range in.Partitions.Named {
		n := &in.Partitions.Named[i]
		see(element(path+".partitions.named", i), n.Shared, n.Rate)
		limit(element(path+".partitions.named", i), &n.Limit)
	}
}
