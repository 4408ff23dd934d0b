// Node's driver: work, refusals, and what this generation makes of them.
const { GATE, WRONG, TLS, DIRECT, GATE_PORT, GENERATION, DRIVER, SQUEEZED, WITHOUT = '' } = process.env;
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
  const servers = [...client.topology.description.servers.keys()];
  fact('the driver knows of no server but the gate', servers.join() === `127.0.0.1:${GATE_PORT}`, servers);
  await unacknowledged(client);
  if (!WITHOUT.includes('transactions')) await transactions(client, things);
}

// unacknowledged: a reply to a write that wants none must not be taken for that of
// the next command.
async function unacknowledged(client) {
  const db = client.db(name);
  const silent = db.collection('silent', { writeConcern: { w: 0 } });
  await db.collection('silent').drop().catch(() => {});
  let right = true, there = 0;
  for (let n = 0; n < 20; n++) {
    await silent.insertOne({ _id: n });
    right &&= (await db.collection('things').findOne({ _id: n }))?._id === n;
  }
  for (let i = 0; i < 50 && there !== 20; i++) {
    there = await db.collection('silent').countDocuments();
    if (there !== 20) await new Promise((resolve) => setTimeout(resolve, 100));
  }
  fact('twenty unacknowledged writes among reads: each read has its own answer', right && there === 20, `${right} ${there}`);
}

async function transactions(client, things) {
  await client.withSession((session) => session.withTransaction(() => things.insertOne({ _id: 'committed' }, { session })));
  fact('a transaction', (await things.findOne({ _id: 'committed' })) !== null);
  const stream = things.watch([], { maxAwaitTimeMS: 500 });
  const next = stream.next();
  await new Promise((resolve) => setTimeout(resolve, 300));
  await things.insertOne({ _id: 'watched' });
  fact('a change stream', (await next).documentKey._id === 'watched');
  await stream.close();
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

// third: eight ask for about half as much again as the rate.
async function third(client, w) {
  w.clear();
  let done = 0, failed = 0;
  const other = [];
  await Promise.all([...Array(8)].map(async () => {
    for (let i = 0; i < 40; i++) {
      const error = await attempt(client.db('third').collection('things').findOne({}));
      if (!error) done++;
      else if (error.code === 462) failed++;
      else other.push(error);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }));
  fact(`overloaded, every failure is 462 and no connection is lost: ${failed} of 320 operations failed in ${w.began.length} attempts`,
    other.length === 0 && w.created <= 8 && done > 100 && done + failed === 320, `${done} ${other[0]} ${w.created}`);
  const refused = w.began.length - done;
  brisk(`${Math.floor(100 * refused / w.began.length)} % of the attempts were refused`, refused > 50, refused);
}

async function squeezed() {
  const client = new MongoClient(SQUEEZED, { compressors: ['zlib'] });
  const things = client.db(name).collection('squeezed');
  await things.drop().catch(() => {});
  await things.insertMany([...Array(200).keys()].map((n) => ({ _id: n, pad: 'x'.repeat(200) })));
  const got = await things.find().batchSize(50).toArray();
  const error = await attempt(client.db('spent').collection('things').findOne({}, { maxTimeMS: 800 }));
  const after = await things.findOne({ _id: 7 });
  fact('compressed with zlib: 200 documents in and out, a refusal that is not, and on', got.length === 200 && error?.code === 462 && after._id === 7, `${got.length} ${error}`);
  await client.close();
}

main(async () => {
  const client = new MongoClient(GATE, { monitorCommands: true, serverSelectionTimeoutMS: 10000 });
  const w = watch(client);
  await client.connect();
  await work(client);
  await refusals(client, w);
  if (GENERATION !== 'absent') await waits(client, w);
  await third(client, w);
  await client.close();
  const wrong = new MongoClient(WRONG, { serverSelectionTimeoutMS: 5000 });
  const error = await attempt(wrong.db('db').collection('things').findOne({}));
  fact("a wrong password is the server's answer 18", error?.code === 18, error);
  await wrong.close();
  const secure = new MongoClient(TLS);
  await secure.db(name).collection('things').insertOne({ _id: 'tls' });
  fact('the same over TLS to the gate', true);
  await secure.close();
  if (SQUEEZED) await squeezed();
});
