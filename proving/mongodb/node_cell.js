// Node's driver: work, refusals, and what this generation makes of them.
const { GATE, WRONG, TLS, DIRECT, GATE_PORT, GENERATION, DRIVER } = process.env;
const { MongoClient } = require(DRIVER);
const { brisk, fact, main } = require('../facts.js');
const attempts = GENERATION === 'absent' ? 1 : 3;
const name = 'node' + DRIVER.replace(/\W/g, '');
const attempt = (promise) => promise.then(() => null, (error) => error);

// watch notes attempts and new connections.
function watch(client) {
  const w = { clear() { this.began = []; this.ended = []; this.replies = []; this.created = 0; } };
  w.clear();
  client.on('commandStarted', (e) => { if (['find', 'insert'].includes(e.commandName)) w.began.push(performance.now()); });
  client.on('commandFailed', (e) => { w.ended.push(performance.now()); w.replies.push(e.failure); });
  client.on('connectionCreated', () => { w.created += 1; });
  return w;
}

async function work(client) {
  const things = client.db(name).collection('things');
  await things.drop().catch(() => {});
  await things.insertMany([...Array(1000).keys()].map((n) => ({ _id: n })));
  const got = await things.find().sort({ _id: 1 }).batchSize(100).toArray();
  fact('login with SCRAM; 1000 documents in, a cursor of ten batches', got.every((d, n) => d._id === n) && got.length === 1000, got.length);
  await client.withSession((session) => session.withTransaction(() => things.insertOne({ _id: 'committed' }, { session })));
  fact('a transaction', (await things.findOne({ _id: 'committed' })) !== null);
  const stream = things.watch([], { maxAwaitTimeMS: 500 });
  const next = stream.next();
  await new Promise((resolve) => setTimeout(resolve, 300));
  await things.insertOne({ _id: 'watched' });
  fact('a change stream', (await next).documentKey._id === 'watched');
  await stream.close();
  const servers = [...client.topology.description.servers.keys()];
  fact('the driver knows of no server but the gate', servers.join() === `127.0.0.1:${GATE_PORT}`, servers);
}

async function refusals(client, w) {
  const things = client.db('spent').collection('things');
  for (const [what, op] of [['a read', () => things.findOne({})], ['a write', () => things.insertOne({ from: name })]]) {
    w.clear();
    const error = await attempt(op());
    fact(`${what} is refused with 462 and both labels`, error?.code === 462 && error.hasErrorLabel('SystemOverloadedError') && error.hasErrorLabel('RetryableError'), error);
    fact(`${what}: ${attempts} attempt${attempts > 1 ? 's' : ''}, on connections that are there`, w.began.length === attempts && w.created === 0, `${w.began.length} ${w.created}`);
  }
  const direct = new MongoClient(DIRECT);
  fact('a refused write is not at the server', (await direct.db('spent').collection('things').countDocuments({ from: name })) === 0);
  await direct.close();
}

// Backoff is jitter times base times two to the number of the retry: the third generation counts from one, the
// second from zero.
async function waits(client, w) {
  let worst = 0, total = 0, n = 0;
  for (let round = 0; round < 10; round++) {
    w.clear();
    await attempt(client.db('spent').collection('things').findOne({}, { maxTimeMS: 800 }));
    for (let i = 0; i < Math.min(2, w.began.length - 1); i++) {
      const reply = w.replies[i];
      const base = GENERATION === '2' ? 2 * (reply.baseBackoffMS ?? reply.errorResponse.baseBackoffMS) : 100;
      const share = (w.began[i + 1] - w.ended[i]) / (base * 2 ** i);
      worst = Math.max(worst, share);
      total += share;
      n++;
    }
  }
  const mean = total / Math.max(n, 1);
  const what = GENERATION === '2' ? 'baseBackoffMS' : 'its own 100 ms';
  brisk(`it waits between attempts as ${what} says: at most ${worst.toFixed(2)} of it, ${mean.toFixed(2)} on average of ${n}`, worst < 1.5 && mean > 0.2 && mean < 0.9, `${worst} ${mean} ${n}`);
}

main(async () => {
  const client = new MongoClient(GATE, { monitorCommands: true, serverSelectionTimeoutMS: 10000 });
  const w = watch(client);
  await client.connect();
  await work(client);
  await refusals(client, w);
  if (GENERATION !== 'absent') await waits(client, w);
  await client.close();
  const wrong = new MongoClient(WRONG, { serverSelectionTimeoutMS: 5000 });
  const error = await attempt(wrong.db('db').collection('things').findOne({}));
  fact("a wrong password is the server's answer 18", error?.code === 18, error);
  await wrong.close();
  const secure = new MongoClient(TLS);
  await secure.db(name).collection('things').insertOne({ _id: 'tls' });
  fact('the same over TLS to the gate', true);
  await secure.close();
});
