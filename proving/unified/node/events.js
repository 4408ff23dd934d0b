// What a client tells of itself, in the words of the tests.
const { match, miss, plain } = require('./match.js');

// Names of events in the tests, and of the driver.
const NAMES = {
  commandStartedEvent: 'commandStarted', commandSucceededEvent: 'commandSucceeded', commandFailedEvent: 'commandFailed',
  poolCreatedEvent: 'connectionPoolCreated', poolReadyEvent: 'connectionPoolReady', poolClearedEvent: 'connectionPoolCleared',
  poolClosedEvent: 'connectionPoolClosed', connectionCreatedEvent: 'connectionCreated', connectionReadyEvent: 'connectionReady',
  connectionClosedEvent: 'connectionClosed', connectionCheckOutStartedEvent: 'connectionCheckOutStarted',
  connectionCheckOutFailedEvent: 'connectionCheckOutFailed', connectionCheckedOutEvent: 'connectionCheckedOut',
  connectionCheckedInEvent: 'connectionCheckedIn', serverHeartbeatStartedEvent: 'serverHeartbeatStarted',
  serverHeartbeatSucceededEvent: 'serverHeartbeatSucceeded', serverHeartbeatFailedEvent: 'serverHeartbeatFailed',
  serverDescriptionChangedEvent: 'serverDescriptionChanged', topologyDescriptionChangedEvent: 'topologyDescriptionChanged',
  topologyOpeningEvent: 'topologyOpening', topologyClosedEvent: 'topologyClosed',
};
const kind = (name) => (name.startsWith('command') ? 'command' : name.startsWith('connection') || name.startsWith('pool') ? 'cmap' : 'sdam');
const SENSITIVE = ['authenticate', 'saslStart', 'saslContinue', 'getnonce', 'createUser', 'updateUser', 'copydbgetnonce', 'copydbsaslstart', 'copydb'];

// observe keeps the events of a client that its options name, in order.
function observe(client, options) {
  const seen = [];
  const ignored = new Set([...(options.ignoreCommandMonitoringEvents ?? []), 'configureFailPoint']);
  if (!options.observeSensitiveCommands) SENSITIVE.forEach((c) => ignored.add(c));
  for (const name of Object.keys(NAMES)) {
    client.on(NAMES[name], (event) => {
      if (kind(name) === 'command' && ignored.has(event.commandName)) return;
      seen.push({ name, kind: kind(name), event, command: plain(event.command), reply: plain(event.reply) });
    });
  }
  const wanted = new Set(options.observeEvents ?? []);
  return { of: (kindOf) => seen.filter((e) => wanted.has(e.name) && (!kindOf || e.kind === kindOf)), all: seen };
}

const FLAT = ['commandName', 'databaseName', 'reason', 'interruptInUseConnections', 'awaited'];

// matchEvent compares one event: wanted is { name: { fields } }.
function matchEvent(wanted, seen, ctx) {
  const [name] = Object.keys(wanted);
  if (seen.name !== name) miss(name, `saw ${seen.name} ${seen.event.commandName ?? ''}`);
  for (const [key, value] of Object.entries(wanted[name])) {
    if (key === 'command') match(value, seen.command, ctx, `${name}.command`, true);
    else if (key === 'reply') match(value, seen.reply, ctx, `${name}.reply`, true);
    else if (key === 'previousDescription' || key === 'newDescription') match(value.type ?? { $$exists: true }, seen.event[key].type, ctx, `${name}.${key}`);
    else if (key === 'hasServiceId') { if ((seen.event.serviceId != null) !== value) miss(name, 'serviceId'); }
    else if (key === 'hasServerConnectionId') { if ((seen.event.serverConnectionId != null) !== value) miss(name, 'serverConnectionId'); }
    else if (FLAT.includes(key)) match(value, seen.event[key], ctx, `${name}.${key}`);
    else throw new Error(`no field ${key} of an event`);
  }
}

// matchEvents compares all events that a client was expected to tell.
function matchEvents(wanted, observed, ctx) {
  const seen = observed.of(wanted.eventType ?? 'command');
  wanted.events.forEach((w, i) => (seen[i] ? matchEvent(w, seen[i], ctx) : miss(Object.keys(w)[0], `event ${i} did not come`)));
  if (!wanted.ignoreExtraEvents && seen.length > wanted.events.length) miss('events', `${seen.length}, want ${wanted.events.length}`);
}

// count returns how many events are as wanted.
function count(wanted, observed, ctx) {
  return observed.of().filter((e) => { try { matchEvent(wanted, e, ctx); return true; } catch { return false; } }).length;
}

module.exports = { count, matchEvents, observe };
