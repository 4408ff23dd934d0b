// A runner for unified tests on Node's driver, as far as these suites need one: run.js URI FILE… [--only NAME].
// It tells `PASS file/test`, `FAIL file/test` or `SKIP file/test`, and why in the line before.
const fs = require('node:fs');
const { BSON, MongoClient } = require('mongodb');
const { Context } = require('./context.js');
const { matchEvents } = require('./events.js');
const { match, plain } = require('./match.js');
const { Unsupported } = require('./operations.js');

const TEST_MS = 30_000;

// meets tells whether the server is one that a test is for.
function meets(server, requirements) {
  if (!requirements) return true;
  const order = (v) => v.split('.').map(Number).concat(0, 0).slice(0, 3).reduce((n, part) => n * 1000 + part, 0);
  return requirements.some((r) =>
    (!r.minServerVersion || order(server.version) >= order(r.minServerVersion)) && (!r.maxServerVersion || order(server.version) <= order(r.maxServerVersion)) &&
    (!r.topologies || r.topologies.includes('replicaset')) && !r.auth && !r.csfle && r.serverless !== 'require' &&
    Object.entries(r.serverParameters ?? {}).every(([k, v]) => { try { return match(v, server.parameters[k], {}); } catch { return false; } }));
}

async function fill(internal, data = []) {
  for (const { databaseName, collectionName, documents, createOptions } of data) {
    const db = internal.db(databaseName);
    await db.collection(collectionName).drop({ writeConcern: { w: 'majority' } }).catch((e) => { if (e.code !== 26) throw e; });
    await db.createCollection(collectionName, { ...createOptions, writeConcern: { w: 'majority' } });
    if (documents.length) await db.collection(collectionName).insertMany(documents, { writeConcern: { w: 'majority' } });
  }
}

async function outcome(internal, data = [], ctx) {
  for (const { databaseName, collectionName, documents } of data) {
    const seen = await internal.db(databaseName).collection(collectionName, { readConcern: { level: 'local' } }).find({}, { sort: { _id: 1 } }).toArray();
    match(documents, plain(seen), ctx, 'outcome');
  }
}

async function play(file, test, ctx) {
  if (test.expectLogMessages) throw new Unsupported('log messages');
  await ctx.internal.db('admin').command({ killAllSessions: [] }).catch(() => {}); // an open transaction would be in the way
  await fill(ctx.internal, file.initialData);
  await ctx.create(file.createEntities ?? []);
  for (const op of test.operations) await ctx.run(op);
  for (const wanted of test.expectEvents ?? []) matchEvents(wanted, ctx.observed.get(wanted.client), ctx);
  await outcome(ctx.internal, test.outcome, ctx);
}

// one runs a test and returns its verdict.
async function one(file, test, uri, internal, server) {
  const why = test.skipReason ?? (meets(server, file.runOnRequirements) && meets(server, test.runOnRequirements) ? null : 'another server');
  if (why) return ['SKIP', why];
  const ctx = new Context(uri, internal);
  let timer;
  const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error('it took too long')), TEST_MS); });
  try {
    await Promise.race([play(file, test, ctx), late]);
    return ['PASS'];
  } catch (error) {
    return [error instanceof Unsupported ? 'SKIP' : 'FAIL', String(error.message ?? error).replace(/\s+/g, ' ').slice(0, 400)];
  } finally {
    clearTimeout(timer);
    await Promise.race([ctx.close(), new Promise((resolve) => { setTimeout(resolve, 5000); })]);
  }
}

async function main(uri, args) {
  const at = args.indexOf('--only');
  const only = at < 0 ? null : args[at + 1];
  const internal = await new MongoClient(uri).connect();
  const parameters = await internal.db('admin').command({ getParameter: '*' }).catch(() => ({}));
  const server = { version: (await internal.db('admin').command({ buildInfo: 1 })).version, parameters };
  for (const name of at < 0 ? args : args.slice(0, at)) {
    const text = fs.readFileSync(name, 'utf8');
    const tests = JSON.parse(text).tests.length;
    for (let i = 0; i < tests; i++) {
      const file = BSON.EJSON.parse(text, { relaxed: true }); // anew: drivers add to what they are given
      const test = file.tests[i];
      if (only && test.description !== only) continue;
      const [verdict, why] = await one(file, test, uri, internal, server);
      if (why) console.log(`# ${why}`);
      console.log(`${verdict} ${name}/${test.description}`);
    }
  }
}

process.on('unhandledRejection', (error) => console.log('# a rejection that nobody handled:', error?.message));
main(process.argv[2], process.argv.slice(3)).then(() => process.exit(0), (error) => { console.log('#', error); process.exit(1); });
