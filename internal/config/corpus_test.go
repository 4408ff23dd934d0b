package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/config"
)

// refusals maps each bad file of the corpus to everything that must be said of
// it, in order, less the name of the file.
func refusals() map[string][]string {
	return map[string][]string{
		"addresses": {
			"1: admin.listen: must be text; put it in quotes (8462)",
			"3: ingresses[0].listen: must be host:port (127.0.0.1)",
			"4: ingresses[1].listen: must have a port from 0 to 65535 (127.0.0.1:65536)",
			"5: ingresses[2].listen: must begin with an address or a host name (127.0.0.300:1)",
			"6: ingresses[3].listen: must begin with an address or a host name (my host:1)",
			"7: ingresses[4].listen: must have a port from 0 to 65535 (:http)",
		},
		"admin_open": {
			"1: admin.listen: is not a loopback address: set admin.tokenFile, or admin.insecure: true (0.0.0.0:9462)",
		},
		"admin_open_all": {
			"1: admin.listen: is not a loopback address: set admin.tokenFile, or admin.insecure: true (:9462)",
		},
		"alias_bomb": {
			"1: e[7][0][7][0][3]: aliases expand to more than 100000 values",
		},
		"alias_cycle": {
			"2: admin.listen: refers to an anchor that is not defined before it: *a",
		},
		"alias_unknown": {
			"1: admin: refers to an anchor that is not defined before it: *nowhere",
		},
		"backends": {
			"2: ingresses[0].backend: must be a URL, such as http://127.0.0.1:9000 (127.0.0.1:9000)",
			"3: ingresses[1].backend: must be a URL, such as http://127.0.0.1:9000 (ftp://h:1)",
			"4: ingresses[2].backend: must not hold a user or password (http://u:REDACTED@h:1)",
			"5: ingresses[3].backend: must end after the port (http://h:1/base?REDACTED)",
			"6: ingresses[4].backend: is required when listen is set",
			"7: ingresses[5].listen: is required when backend is set, or decisions.listen for an ingress that only decides",
			"8: ingresses[6].backend: must be host:port (mongodb://h:1)",
			"9: ingresses[7].backend: is required for protocol pulsar",
			"9: ingresses[7].listen: is required for protocol pulsar",
			"10: ingresses[8].backend: is the gate's own address (http://127.0.0.1:7)",
			"11: ingresses[9].backend: must name a host and a port (:27017)",
			"12: ingresses[10].backend: must be http:// or https://: the gate speaks HTTP/1.1 with the backend, and a backend that speaks HTTP/2 only, as gRPC servers do, cannot be behind it (h2c://h:1)",
		},
		"by_http": {
			"6: ingresses[0].partitions.by: lists more than 8 for protocol http (9)",
			"6: ingresses[0].partitions.by[0]: needs the name of a header, such as header:X-Tenant (header)",
			"6: ingresses[0].partitions.by[1]: needs the name of a header, such as header:X-Tenant (header:X Y)",
			"6: ingresses[0].partitions.by[2]: needs a name, such as query:tenant (query)",
			"6: ingresses[0].partitions.by[3]: must begin with header, query, path, client or constant for protocol http (tenant)",
			`6: ingresses[0].partitions.by[4]: must begin with header, query, path, client or constant for protocol http, did you mean "header"? (hader:X)`,
			"6: ingresses[0].partitions.by[5]: needs a path that begins with a slash, such as /v1/{tenant} or /internal/* (path:x)",
			"6: ingresses[0].partitions.by[6]: has a segment that is neither plain nor one {name} (path:/a/{b)",
			"6: ingresses[0].partitions.by[7]: holds {a} twice (path:/{a}/{a})",
			"6: ingresses[0].partitions.by[8]: takes a prefix length from 1 to 128, such as client:24 (client:129)",
		},
		"by_http_twice": {
			"5: ingresses[0].partitions.by[1]: needs a name, such as constant:tenant (constant:)",
			"5: ingresses[0].partitions.by[2]: is listed twice (client)",
		},
		"by_mongodb": {
			`6: ingresses[0].partitions.by[0]: must begin with database, collection, command, application, driver, user, client, readPreference or comment for protocol mongodb, did you mean "database"? (databse)`,
			"6: ingresses[0].partitions.by[1]: takes no argument (command:x)",
			"6: ingresses[0].partitions.by[2]: takes a prefix length from 1 to 128, such as client:24 (client:129)",
			"6: ingresses[0].partitions.by[3]: must begin with database, collection, command, application, driver, user, client, readPreference or comment for protocol mongodb (topic)",
		},
		"postgres": {
			"6: ingresses[0].connections.reserved: must be less than maxOpen (10)",
			"7: ingresses[0].partitions.by[0]: takes the name of a tag, such as comment:route (comment)",
			"9: ingresses[0].postgres.sqlstate.draining: must be five digits or capital letters, such as 53000 (0)",
			"9: ingresses[0].postgres.sqlstate.nonsense: is no reason of a refusal: must be request_rate, concurrency_limit, queue_timeout, cost_exceeds_burst, shed or draining (nonsense)",
			"13: ingresses[1].connections.reserved: belongs to protocol postgres only (3)",
			"19: ingresses[2].postgres.passTLS: excludes tls and backendTLS, which end TLS in the gate (true)",
		},
		"by_pulsar": {
			"6: ingresses[0].partitions.by: lists more than 1 for protocol pulsar (2)",
			"7: ingresses[0].requests.exempt: belongs to protocol http, mongodb or postgres only",
			"7: ingresses[0].requests.unauthenticated: belongs to protocol mongodb only: elsewhere a connection logs in before it may ask, or never (pass)",
			"8: ingresses[0].cost: does not belong to protocol pulsar, only to http, mongodb or postgres",
		},
		"clashes": {
			"4: ingresses[0].listen: clashes with admin.listen 127.0.0.1:8462 (127.0.0.1:8462)",
			"7: ingresses[2].listen: clashes with ingresses[1].listen 0.0.0.0:9000 ([::1]:9000)",
		},
		"comments_only": {
			"1: is empty",
		},
		"decisions": {
			"3: decisions.listen: clashes with admin.listen 127.0.0.1:9462 (127.0.0.1:9462)",
			"4: decisions.tokenFile: is admin.tokenFile too: who asks for permits could switch the gate off (/etc/admitd/token)",
			"5: decisions.tls.clientCAFile: needs certFile and keyFile (ca.pem)",
			"6: drainDelay: must be at least 0s (-1s)",
		},
		"decisions_open": {
			"1: decisions.listen: is not a loopback address: set decisions.tokenFile, decisions.tls.clientCAFile, or decisions.insecure: true (0.0.0.0:9463)",
		},
		"duplicate_block": {
			"6: log: is written twice, first in line 1",
		},
		"duplicate_key": {
			"6: ingresses[0].mode: is written twice, first in line 5",
		},
		"empty": {
			"1: is empty",
		},
		"empty_ingresses": {
			"1: ingresses: needs at least one ingress",
		},
		"enums": {
			"1: log.format: must be auto, json or text (xml)",
			`1: log.level: must be debug, info, warn or error, did you mean "warn"? (warning)`,
			"2: clock.fallback: must be auto, fixed or off (On)",
			`7: ingresses[0].mode: must be enforce, shadow or off, did you mean "shadow"? (shadw)`,
			"8: ingresses[0].rejection.status: must be auto, 429, 503 or 462 (500)",
			`9: ingresses[0].partitions.default.limit.algorithm: must be knee, fixed, aimd, vegas, gradient or gradient2, did you mean "gradient2"? (gradiant2)`,
		},
		"fleet": {
			"2: fleet.redis.addresses[0]: must be host:port (127.0.0.1)",
			"2: fleet.redis.master: excludes cluster: sentinels watch over one server (orders)",
			"2: fleet.redis.tls.certFile: needs both certFile and keyFile",
			"3: fleet.group: may hold letters, digits, dot, dash and underscore only (a b)",
			"5: fleet.lease: must be at least twice the interval (1s)",
			"6: fleet.fallback: must be fair, share, closed or open (none)",
			"11: ingresses[0].requests.shared: needs a rate (true)",
		},
		"fleet_nowhere": {
			"5: ingresses[0].connections.shared: needs fleet.redis.addresses (true)",
			"6: ingresses[0].partitions.default.limit.shared: needs fleet.redis.addresses (true)",
		},
		"ingresses_mapping": {
			"1: ingresses: must be a list (a mapping)",
		},
		"key_not_text": {
			"1: is not valid YAML: found an invalid key for this map",
		},
		"limit_keys": {
			"6: ingresses[0].partitions.default.limit.minLimit: does not belong to algorithm fixed, only to knee, aimd, gradient or gradient2",
			"6: ingresses[0].partitions.default.limit.requestTimeout: does not belong to algorithm fixed, only to aimd",
			"9: ingresses[0].partitions.named[0].limit.longWindow: does not belong to algorithm vegas, only to gradient2",
			"9: ingresses[0].partitions.named[0].limit.minLimit: does not belong to algorithm vegas, only to knee, aimd, gradient or gradient2",
			"10: ingresses[0].partitions.named[1].limit.limit: does not belong to algorithm knee, only to fixed",
			"11: ingresses[0].partitions.named[2].limit.rttTolerance: does not belong to algorithm aimd, only to gradient or gradient2",
		},
		"limit_order": {
			"6: ingresses[0].partitions.default.limit.minLimit: must be at most maxLimit (300)",
			"9: ingresses[0].partitions.named[0].limit.initialLimit: must be at least minLimit (5)",
			"10: ingresses[0].partitions.named[1].limit.initialLimit: must be at most maxLimit (500)",
			"11: ingresses[0].partitions.named[2].limit.alpha: must be below beta (6)",
			"12: ingresses[0].partitions.named[3].limit.window.min: must be at most window.max (2s)",
			"13: ingresses[0].partitions.named[4].limit.minLimit: must be a whole number (x)",
		},
		"list_document": {
			"1: must be a mapping of keys",
		},
		"merge_scalar": {
			"2: admin: merges something that is not a mapping with <<",
		},
		"mongodb": {
			"7: ingresses[0].mongodb.topology.members.x: must be host:port on both sides (x)",
			`7: ingresses[0].mongodb.topology.mode: must be auto, direct, members or loadBalanced, did you mean "members"? (member)`,
			"8: ingresses[0].mongodb.maxMessageBytes: must be at least 64KiB (1KiB)",
			"9: ingresses[0].mongodb.refusal.waitSilent: must be at least -1s (-2s)",
			"14: ingresses[1].mongodb.moreBackends: belongs to topology mode loadBalanced only",
			"14: ingresses[1].mongodb.topology.members: is required for mode members",
			"19: ingresses[2].mongodb.topology.members.c: must be host:port on both sides (c)",
			`19: ingresses[2].mongodb.topology.members["b:1"]: is the address for a:1 too (g:1)`,
			`19: ingresses[2].mongodb.topology.members["d:1"]: must be host:port (g)`,
			"24: ingresses[3].mongodb.topology.members: belongs to mode members only",
		},
		"named_without_by": {
			"5: ingresses[0].partitions.by: is required for named partitions: without it every request belongs to default",
		},
		"names": {
			"3: ingresses[1].name: is the name of ingresses[0] too (orders)",
			"4: ingresses[2].name: may hold letters, digits, dot, dash and underscore only (a b)",
			"5: ingresses[3].name: must begin with a letter or a digit (-x)",
			"6: ingresses[4].name: must not be empty",
			"7: ingresses[5].name: is required",
			"8: ingresses[6].name: is longer than 64 characters (xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx)",
		},
		"no_ingresses": {
			"1: ingresses: is required",
		},
		"not_utf8": {
			"2: is not valid UTF-8",
		},
		"nul_byte": {
			"2: holds a NUL byte",
		},
		"null_document": {
			"1: is empty",
		},
		"null_element": {
			"5: ingresses[1]: is an empty element",
		},
		"operations": {
			"5: ingresses[0].cost.byOperation.GET: needs a path that begins with a slash, such as /v1/{tenant} or /internal/* (GET)",
			`5: ingresses[0].cost.byOperation["/a/*/b"]: may hold * as its last segment only (/a/*/b)`,
			`5: ingresses[0].cost.byOperation["POST /a"]: must be at least 0.001 (0)`,
			`5: ingresses[0].cost.byOperation["get /x"]: must begin with a method, such as GET /health, or with a path (get /x)`,
			"5: ingresses[0].cost.header: is not a header name (X Cost)",
			"6: ingresses[0].requests.exempt.applications[0]: must not be empty",
			"6: ingresses[0].requests.exempt.cidrs[0]: has bits beyond its mask; 10.0.0.0/8 is meant? (10.0.0.1/8)",
			"6: ingresses[0].requests.exempt.cidrs[1]: is not a CIDR or an address, such as 10.0.0.0/8 (300.0.0.0/8)",
			"6: ingresses[0].requests.exempt.cidrs[2]: must be one value, not a mapping (a mapping)",
			"6: ingresses[0].requests.exempt.operations[0]: needs a path that begins with a slash, such as /v1/{tenant} or /internal/* (GET)",
		},
		"out_of_range": {
			"5: ingresses[0].drainTimeout: must be at most 1h (2h)",
			"6: ingresses[0].maxHeaderBytes: must be at least 4KiB (1KiB)",
			"7: ingresses[0].requests.burstSeconds: must be at least 0.001 (0)",
			"7: ingresses[0].requests.queueDepth: must be at most 1000000 (1000001)",
			"7: ingresses[0].requests.rate: must be at least 0 (-1)",
			"8: ingresses[0].partitions.default.limit.backoffRatio: must be below 1 (1)",
			"8: ingresses[0].partitions.max: must be at least 1 (0)",
			"9: ingresses[0].connections.maxOpen: must be a whole number (1e+20)",
		},
		"partition_names": {
			"9: ingresses[0].partitions.named[1].name: is the name of ingresses[0].partitions.named[0] too (a)",
			"10: ingresses[0].partitions.named[2].match: is the match of ingresses[0].partitions.named[0] too (a)",
			"11: ingresses[0].partitions.named[3].name: is the name of a partition that exists in every gate (default)",
			"12: ingresses[0].partitions.named[4].match: may hold * at its end only (x*y)",
			"13: ingresses[0].partitions.named[5].name: is required",
		},
		"protocol": {
			"5: ingresses[0].protocol: must be http, mongodb, postgres or pulsar (mysql)",
		},
		"proxied": {
			"2: ingresses[0].proxyProtocolFrom: is required: listen is neither a loopback nor a private address, and whoever connects could claim any",
			"5: ingresses[3].proxyProtocol: must be true with proxyProtocolFrom (false)",
		},
		"pulsar": {
			"7: ingresses[0].pulsar.brokers[0]: must be host:port; the host may begin with *. and the port be * (*:6650)",
			"7: ingresses[0].pulsar.brokers[2]: must be host:port; the host may begin with *. and the port be * (x)",
			"8: ingresses[0].pulsar.method: must be auto, hold or pause (stop)",
			"9: ingresses[0].pulsar.throttleProducerReceiptWaitTimeMillis: must be at least 1 (0)",
			"10: ingresses[0].pulsar.publishRate.bytes: must be at most 1TiB (5TB)",
			"10: ingresses[0].pulsar.publishRate.messages: must be at least 0 (-1)",
			"13: ingresses[0].pulsar.topics[1].match: is the match of ingresses[0].pulsar.topics[0] too (persistent://t/n/*)",
			"13: ingresses[0].pulsar.topics[1].name: is the name of ingresses[0].pulsar.topics[0] too (a)",
			"14: ingresses[0].pulsar.topics[2].match: must be a full topic name, such as persistent://tenant/namespace/topic (persistent://t)",
			"15: ingresses[0].pulsar.topics[3].match: is required",
			"17: ingresses[0].pulsar.resourceGroups[0].match[0]: may hold * at its end only (a*b)",
			"18: ingresses[0].pulsar.resourceGroups[1].name: is the name of ingresses[0].pulsar.resourceGroups[0] too (g)",
			"19: ingresses[0].pulsar.resourceGroups[2].match: needs at least one topic",
			"20: ingresses[0].pulsar.maxHeldBytes: must be at most maxGateHeldBytes (1GiB)",
		},
		"syntax_open_list": {
			"1: is not valid YAML: sequence end token ']' not found",
		},
		"syntax_tab": {
			"2: is not valid YAML: found character ' ' that cannot start any token: line 2 is indented with a tab; use spaces",
		},
		"tag": {
			"2: admin.listen: has a YAML tag, which this configuration does not use",
		},
		"tls": {
			"5: ingresses[0].tls.keyFile: is required with certFile",
			"6: ingresses[0].backendTLS.certFile: is required with keyFile",
			"6: ingresses[0].backendTLS.enabled: must be true, or the other keys of backendTLS be left out (false)",
			"10: ingresses[1].tls.clientCAFile: needs certFile and keyFile (c.pem)",
			"11: ingresses[1].backendTLS.enabled: contradicts a backend that begins with http:// (true)",
		},
		"too_deep_block": {
			"2: is nested deeper than 32 levels",
		},
		"too_deep_flow": {
			"1: is nested deeper than 32 levels",
		},
		"tracing": {
			"1: tracing.endpoint: must be a URL, such as http://127.0.0.1:4318 (REDACTED)",
			"1: tracing.sampleRatio: must be at most 1 (1.5)",
		},
		"tuner": {
			"2: tuner.mode: must be off, advise or act (dream)",
			"4: tuner.signals[0].metric: must be cpu, psi_cpu, psi_io, psi_memory, memory, load, run_queue, disk or network for source host (gpu)",
			"5: tuner.signals[1].ingress: is not the name of an ingress (nowhere)",
			"5: tuner.signals[1].metric: must be p50, p99, refused, inFlight, queued or goodput for source gate (p98)",
			"5: tuner.signals[1].name: is the name of tuner.signals[0] too (cpu)",
			"6: tuner.signals[2].url: must not hold a password, which belongs in a file",
			"7: tuner.signals[3].url: is required",
			"8: tuner.signals[4].url: must be a URL, such as mongodb://127.0.0.1:9090",
			"9: tuner.signals[5].url: does not belong to source host, only to scrape, prometheus, mongodb, postgres or http",
			"10: tuner.signals[6].url: must not hold a password, which belongs in a file",
			"11: tuner.signals[7].min: must be at most max (2)",
			"13: tuner.policies[0].min: must be at most max (100)",
			"13: tuner.policies[0].signal: is not the name of a signal (nothing)",
			"14: tuner.policies[1].adjust: needs allowMode: true, as it lets the policy stop the gate from refusing (orders.mode)",
			"14: tuner.policies[1].below: must be at most above (10)",
			"14: tuner.policies[1].name: is the name of tuner.policies[0] too (a)",
			"14: tuner.policies[1].step: must be below 1 (1)",
			"15: tuner.policies[2].max: is required",
			"15: tuner.policies[2].min: is required",
			"15: tuner.policies[2].step: is required",
			"16: tuner.policies[3].adjust: is not a number that can change while the gate runs, such as orders.requests.rate (orders.partitions.default.limit.alpha)",
			"16: tuner.policies[3].minimumLimit: must be at most limit (9)",
			"17: tuner.policies[4].adjust: is not a number that can change while the gate runs, such as orders.requests.rate (other.requests.rate)",
			`17: tuner.policies[4].hours[0].days: must be mon, tue, wed, thu, fri, sat or sun, did you mean "mon"? (monday)`,
			"17: tuner.policies[4].hours[0].from: is not a time of the day, such as 08:00 (8)",
			"17: tuner.policies[4].hours[0].to: is not a time of the day, such as 08:00 (25:00)",
			"17: tuner.policies[4].min: must be at least 0.001, the smallest value of the setting that has an effect (0)",
			"17: tuner.policies[4].zone: is not a time zone, such as Europe/Berlin (Nowhere/Land)",
			"18: tuner.policies[5].min: must be at least 1, the smallest value of the setting that has an effect (0.5)",
			"19: tuner.policies[6].hours[0].bound: must be at least 0.001, the smallest value of the setting that has an effect (0)",
			"20: tuner.policies[7].minimumLimit: must be at least 1, the smallest value of the setting that has an effect (0.9)",
			"22: tuner.trial.objective.ingress: is not the name of an ingress (other)",
		},
		"shadow": {
			`4: shadow[0].partitions.default.limit.algorithm: must be knee, fixed, aimd, vegas, gradient or gradient2, did you mean "vegas"? (vega)`,
			"5: shadow[1].partitions.default.limit.alpha: does not belong to algorithm knee, only to vegas",
			"5: shadow[1].partitions.max: cannot be changed while the gate runs, only in the file",
			"6: shadow[2].partitions.named: there is no partition of that name (checkout)",
			"10: shadow[3].requests.rate: must be at least 0 (-1)",
		},
		"shares": {
			"3: ingresses[0].partitions.share: must be backend, own or one (many)",
			"4: ingresses[0].partitions.named[0].weight: must be at least 1 (0)",
			"5: ingresses[0].partitions.named[1].maxShare: must be at most 1 (2)",
			"7: ingresses[1].partitions.named[0].maxShare: is a share of nothing: with share: own it needs a total (0.5)",
			"9: ingresses[2].cost.shapes.learn: is learned, or told by default, byOperation and header: not both (true)",
			"9: ingresses[2].cost.shapes.max: must be at least 1 (0)",
		},
		"classes": {
			"4: ingresses[0].classes.by: must begin with header, query or priority for protocol http, did you mean \"header\"? (headers:X)",
			"5: ingresses[0].classes.default: must be critical-plus, critical, sheddable-plus or sheddable (urgent)",
			"7: ingresses[0].classes.rules[0]: matches every request: write default instead",
			"8: ingresses[0].classes.rules[1].operations: needs a path that begins with a slash, such as /v1/{tenant} or /internal/* (nowhere)",
			"9: ingresses[0].classes.rules[2].users: belongs to protocol mongodb or postgres only",
			"10: ingresses[0].classes.rules[3].partitions[0]: may hold * at its end only (a*b)",
			"11: ingresses[0].classes.rules[4].class: is required",
			"12: ingresses[0].classes.floor.low: must be critical-plus, critical, sheddable-plus or sheddable (low)",
			"12: ingresses[0].classes.floor.sheddable: must be at most 0.5 (2)",
			"14: ingresses[1].classes.by: is required for trust: without it nobody can claim a class",
			"14: ingresses[1].classes.trust[0]: is no CIDR, such as 10.0.0.0/8 (10.0.0.0/99)",
			"14: ingresses[1].classes.trust[1]: must not be empty",
		},
		"shadow_names": {
			"3: shadow: lists more than 4 (5)",
			"5: shadow[1].ingress: is not the name of an ingress (other)",
			"5: shadow[1].name: is the name of shadow[0] too (a)",
			"5: shadow[1].partitions: must be a mapping (5)",
			"6: shadow[2].mode: unknown key",
		},
		"two_documents": {
			"6: begins a second document; only one is read",
		},
		"units": {
			"5: ingresses[0].drainTimeout: needs a unit, such as 250ms or 10s (5)",
			"6: ingresses[0].backendTimeout: is not a duration, such as 250ms or 10s (soon)",
			"7: ingresses[0].maxHeaderBytes: is not a size, such as 64KiB or 16MiB (16 apples)",
			"8: ingresses[0].maxBodyBytes: is not a size, such as 64KiB or 16MiB (-1)",
			"9: ingresses[0].trace.maxSize: is not a whole number of bytes (1.0001KiB)",
		},
		"unknown_keys": {
			`1: admn: unknown key, did you mean "admin"?`,
			`2: log.lvl: unknown key, did you mean "level"?`,
			`7: ingresses[0].partitons: unknown key, did you mean "partitions"?`,
			"8: ingresses[0].zebra: unknown key",
			`9: ingresses[0].connections.max_open: unknown key, did you mean "maxOpen"?`,
		},
		"word_document": {
			"1: must be a mapping of keys",
		},
		"wrong_protocol": {
			"6: ingresses[0].backendTimeout: does not belong to protocol mongodb, only to http",
			"7: ingresses[0].http: does not belong to protocol mongodb, only to http",
			"8: ingresses[0].pulsar: does not belong to protocol mongodb, only to pulsar",
			"9: ingresses[0].cost.header: belongs to protocol http only (X-Price)",
			"10: ingresses[0].rejection.status: belongs to protocol http only (429)",
			"11: ingresses[0].requests.exempt.operations: is not the name of a command (read)",
			"15: ingresses[1].mongodb: does not belong to protocol http, only to mongodb",
		},
		"wrong_types": {
			"1: admin: must be a mapping (9462)",
			"2: log: must be a mapping (a list of 1)",
			"3: tracing.headers: must be a mapping (REDACTED)",
			"3: tracing.sampleRatio: must be a number (0.5)",
			"4: hello.setName: must be text; put it in quotes (12)",
			"4: hello.tags.a: must be text; put it in quotes (1)",
			"4: hello.tags.b: has no value",
			"9: ingresses[0].proxyProtocol: must be true or false (yes)",
			"10: ingresses[0].requests.burstSeconds: must be a finite number (NaN)",
			"10: ingresses[0].requests.queueDepth: must be a whole number (1.5)",
			"10: ingresses[0].requests.rate: must be a number or unlimited (fast)",
			"11: ingresses[0].connections.exempt: must be one value, not a mapping (a mapping)",
			"11: ingresses[0].connections.maxOpen: must be one value, not a list (a list of 1)",
			"11: ingresses[0].connections.rate: must be a finite number (+Inf)",
			"12: ingresses[0].partitions.named: must be a list (a mapping)",
			"13: ingresses[0].mode: must be enforce, shadow or off (true)",
		},
	}
}

func corpus(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("corpus %s: %d files, %v", pattern, len(files), err)
	}
	return files
}

// Every bad file is refused with exactly the problems in the table.
func TestBadCorpus(t *testing.T) {
	table := refusals()
	for _, file := range corpus(t, "*.bad.yml") {
		name := strings.TrimSuffix(filepath.Base(file), ".bad.yml")
		t.Run(name, func(t *testing.T) {
			want, ok := table[name]
			if !ok {
				t.Fatal("has no row in the table")
			}
			delete(table, name)
			_, err := config.Load(file, nil)
			var problems config.Problems
			if !errors.As(err, &problems) {
				t.Fatalf("Load = %v; want Problems", err)
			}
			var got []string
			for _, p := range problems {
				got = append(got, strings.TrimPrefix(p.String(), file+":"))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
	for name := range table {
		t.Errorf("the table names %s.bad.yml, which does not exist", name)
	}
}

// Every good file loads, and what it means survives being rendered and read
// again.
func TestGoodCorpus(t *testing.T) {
	for _, file := range corpus(t, "*.good.yml") {
		t.Run(filepath.Base(file), func(t *testing.T) { roundTrip(t, file) })
	}
}

func roundTrip(t *testing.T, file string) {
	t.Helper()
	c, err := config.Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := c.Effective()
	if err != nil {
		t.Fatal(err)
	}
	again, err := config.Parse("effective", rendered, nil)
	if err != nil {
		t.Fatalf("the effective configuration does not parse:\n%v\n%s", err, rendered)
	}
	second, err := again.Effective()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(rendered), string(second)); diff != "" {
		t.Errorf("read again, the effective configuration differs (-first +second):\n%s", diff)
	}
}

// A file beyond the bound is refused, and not read to its end.
func TestSizeBound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "big.yaml")
	if err := os.WriteFile(path, []byte("# "+strings.Repeat("x", 2<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := config.Read(path)
	if err != nil || len(b) != 1<<20+1 {
		t.Fatalf("Read = %d bytes, %v; want one more than a MiB", len(b), err)
	}
	_, err = config.Load(path, nil)
	if want := path + ": is larger than 1MiB"; err == nil || err.Error() != want {
		t.Errorf("Load = %v; want %s", err, want)
	}
}

// What cannot be read is no Problem: admitd check tells the two apart.
func TestUnreadable(t *testing.T) {
	_, err := config.Load(filepath.Join(t.TempDir(), "none.yaml"), nil)
	var problems config.Problems
	if !errors.Is(err, os.ErrNotExist) || errors.As(err, &problems) {
		t.Errorf("Load = %v; want a plain not-exist error", err)
	}
}
