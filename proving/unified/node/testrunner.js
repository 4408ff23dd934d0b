// The operations of the runner itself: fail points, threads, waits and assertions.
const { setTimeout: sleep } = require('node:timers/promises');
const { count } = require('./events.js');
const { match, miss } = require('./match.js');
const { Unsupported } = require('./operations.js');

const STATES = { none: 'NO_TRANSACTION', starting: 'STARTING_TRANSACTION', in_progress: 'TRANSACTION_IN_PROGRESS', committed: 'TRANSACTION_COMMITTED', aborted: 'TRANSACTION_ABORTED' };
const ensure = (holds, what) => holds || miss('assertion', what);

// lsids returns the session ids of the last two commands of a client.
const lsids = (ctx, name) => ctx.observed.get(name).all.filter((e) => e.name === 'commandStartedEvent').slice(-2).map((e) => e.command.lsid.id.toString('hex'));
const collections = async (ctx, a) => (await ctx.internal.db(a.databaseName).listCollections({ name: a.collectionName }, { nameOnly: true }).toArray()).length > 0;
const indexes = (ctx, a) => ctx.internal.db(a.databaseName).collection(a.collectionName).listIndexes().toArray()
  .then((all) => all.some((i) => i.name === a.indexName), (error) => { if (error.code === 26) return false; throw error; });

async function until(seconds, what, holds) {
  for (const end = Date.now() + seconds * 1000; !holds(); await sleep(10)) ensure(Date.now() < end, `${what} did not come`);
}

const runner = {
  async failPoint(a, ctx) {
    const of = ctx.get(a.client);
    ctx.failPoints.add(a.failPoint.configureFailPoint);
    await of.db('admin').command(a.failPoint);
  },
  createEntities: (a, ctx) => ctx.create(a.entities),
  wait: (a) => sleep(a.ms),
  waitForEvent: (a, ctx) => until(10, Object.keys(a.event)[0], () => count(a.event, ctx.observed.get(a.client), ctx) >= a.count),
  assertEventCount(a, ctx) {
    const seen = count(a.event, ctx.observed.get(a.client), ctx);
    ensure(seen === a.count, `${Object.keys(a.event)[0]} came ${seen} times, want ${a.count}`);
  },
  async runOnThread(a, ctx) {
    const thread = ctx.get(a.thread);
    thread.work = thread.work.then(() => ctx.run(a.operation));
    thread.work.catch(() => {}); // told by waitForThread
  },
  waitForThread: (a, ctx) => Promise.race([ctx.get(a.thread).work, sleep(10_000).then(() => miss('thread', 'is not done'))]),
  assertSessionTransactionState: (a, ctx) => ensure(ctx.get(a.session).transaction.state === STATES[a.state], `transaction is ${ctx.get(a.session).transaction.state}`),
  assertSessionUnpinned: (a, ctx) => ensure(!ctx.get(a.session).isPinned, 'session is pinned'),
  assertSessionDirty: (a, ctx) => ensure(ctx.get(a.session).serverSession.isDirty, 'session is clean'),
  assertSessionNotDirty: (a, ctx) => ensure(!ctx.get(a.session).serverSession.isDirty, 'session is dirty'),
  assertSameLsidOnLastTwoCommands: (a, ctx) => { const [x, y] = lsids(ctx, a.client); ensure(x === y, 'sessions differ'); },
  assertDifferentLsidOnLastTwoCommands: (a, ctx) => { const [x, y] = lsids(ctx, a.client); ensure(x !== y, 'sessions are the same'); },
  assertCollectionExists: async (a, ctx) => ensure(await collections(ctx, a), 'no such collection'),
  assertCollectionNotExists: async (a, ctx) => ensure(!(await collections(ctx, a)), 'collection is there'),
  assertIndexExists: async (a, ctx) => ensure(await indexes(ctx, a), 'no such index'),
  assertIndexNotExists: async (a, ctx) => ensure(!(await indexes(ctx, a)), 'index is there'),
  recordTopologyDescription: (a, ctx) => { ctx.entities.set(a.id, ctx.get(a.client).topology.description); },
  assertTopologyType: (a, ctx) => match(a.topologyType, ctx.get(a.topologyDescription).type, ctx, 'topology'),
  waitForPrimaryChange(a, ctx) {
    const primary = (of) => [...of.servers.values()].find((s) => s.type === 'RSPrimary')?.address;
    const was = primary(ctx.get(a.priorTopologyDescription));
    return until((a.timeoutMS ?? 10_000) / 1000, 'another primary', () => { const now = primary(ctx.get(a.client).topology.description); return now && now !== was; });
  },
};

// runnerOperation carries out an operation whose object is the runner.
module.exports.runnerOperation = ({ name, arguments: args = {} }, ctx) => {
  if (!runner[name]) throw new Unsupported(`${name} of the runner`);
  return runner[name](args, ctx);
};
