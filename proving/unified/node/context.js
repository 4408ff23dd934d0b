// One test: its entities, and how its operations are carried out and judged.
const { MongoClient, MongoServerError, MongoNetworkError } = require('mongodb');
const { observe } = require('./events.js');
const { isDocument, match, miss, plain, show } = require('./match.js');
const { GridFSBucket, Unsupported, perform, preference } = require('./operations.js');
const { runnerOperation } = require('./testrunner.js');

const settings = (o = {}) => ({ ...o, ...(o.readPreference && { readPreference: preference(o.readPreference) }) });

class Context {
  constructor(uri, internal) {
    Object.assign(this, { uri, internal, entities: new Map(), kinds: new Map(), observed: new Map(), ids: new Map(), failPoints: new Set(), opened: [] });
  }

  get(name) {
    if (!this.entities.has(name)) throw new Error(`no entity ${name}`);
    return this.entities.get(name);
  }

  // lsid returns the id of a session, also when it has ended.
  lsid(name) {
    const id = this.get(name).serverSession?.id ?? this.get(name).id;
    if (id) this.ids.set(name, id);
    return this.ids.get(name);
  }

  async create(list) {
    for (const entity of list) {
      const [[kind, o]] = Object.entries(entity);
      this.kinds.set(o.id, kind);
      this.entities.set(o.id, await this.build(kind, o));
    }
  }

  async build(kind, o) {
    switch (kind) {
      case 'client': return this.client(o);
      case 'database': return this.get(o.client).db(o.databaseName, settings(o.databaseOptions));
      case 'collection': return this.get(o.database).collection(o.collectionName, settings(o.collectionOptions));
      case 'bucket': return new GridFSBucket(this.get(o.database), settings(o.bucketOptions));
      case 'thread': return { work: Promise.resolve() };
      case 'session': {
        const { defaultTransactionOptions, ...rest } = o.sessionOptions ?? {};
        const session = this.get(o.client).startSession({ ...rest, ...(defaultTransactionOptions && { defaultTransactionOptions: settings(defaultTransactionOptions) }) });
        this.opened.push({ close: () => session.endSession() });
        return session;
      }
      default: throw new Unsupported(`entity ${kind}`);
    }
  }

  async client(o) {
    if (o.observeLogMessages) throw new Unsupported('log messages');
    const uri = new URL(this.uri.replace('mongodb:', 'http:'));
    for (const [k, v] of Object.entries({ heartbeatFrequencyMS: 500, ...o.uriOptions })) uri.searchParams.set(k, v);
    const client = new MongoClient(uri.href.replace('http:', 'mongodb:'), { monitorCommands: true, minHeartbeatFrequencyMS: 50, __skipPingOnConnect: true });
    this.observed.set(o.id, observe(client, o));
    this.opened.push(client);
    if (!o.uriOptions?.readPreference) await client.connect(); // else it would look for a server that is not there
    return client;
  }

  // callback carries out the operations inside withTransaction, which has to see their errors, also those expected.
  async callback(ops) {
    for (const op of ops) {
      const error = await this.run(op);
      if (error) throw error;
    }
  }

  // run carries out one operation and compares what came of it. It returns the error that was expected.
  async run(op) {
    let result, error;
    try {
      result = op.object === 'testRunner' ? await runnerOperation(op, this) : await perform(this.get(op.object), this.kinds.get(op.object), op, this);
    } catch (e) {
      error = e;
    }
    if (op.arguments?.session) this.lsid(op.arguments.session);
    if (error instanceof Unsupported || op.object === 'testRunner') { if (error) throw error; return undefined; }
    if (op.ignoreResultAndError) return undefined;
    if (op.expectError) {
      if (!error) miss(op.name, `succeeded: ${show(result)}`);
      this.judge(op, error);
      return error;
    }
    if (error) throw error;
    if (op.saveResultAsEntity) this.entities.set(op.saveResultAsEntity, result);
    if (op.expectResult !== undefined) this.compare(op.expectResult, result, op.name);
    return undefined;
  }

  // compare is about results: bytes are no documents, and what is missing is null.
  compare(wanted, result, name) {
    if (Buffer.isBuffer(result)) return match(wanted, result, this, name);
    const special = isDocument(wanted) && Object.keys(wanted)[0]?.startsWith('$$unset');
    return match(wanted, special && result == null ? undefined : plain(result ?? null), this, name, true);
  }

  judge({ name, expectError: e }, error) {
    const labels = (l) => error.hasErrorLabel?.(l) ?? error.errorLabels?.includes(l) ?? false;
    if (e.isClientError !== undefined && e.isClientError === (error instanceof MongoServerError && !(error instanceof MongoNetworkError))) miss(name, `failed otherwise: ${error}`);
    if (e.errorContains && !String(error.message).toLowerCase().includes(e.errorContains.toLowerCase())) miss(name, `failed otherwise: ${error}`);
    const code = error.code ?? error.cause?.code;
    if (e.errorCode !== undefined && code !== Number(e.errorCode)) miss(name, `failed with ${code}: ${error}`);
    if (e.errorCodeName && error.codeName !== e.errorCodeName) miss(name, `failed with ${error.codeName}: ${error}`);
    for (const l of e.errorLabelsContain ?? []) if (!labels(l)) miss(name, `has no label ${l}: ${error}`);
    for (const l of e.errorLabelsOmit ?? []) if (labels(l)) miss(name, `has label ${l}: ${error}`);
    if (e.errorResponse) match(e.errorResponse, plain(error.errorResponse ?? error.cause?.errorResponse), this, name, true);
    if (e.expectResult && error.result) match(e.expectResult, plain({ ...error.result, ...counts(error.result) }), this, name, true);
    for (const of of ['writeErrors', 'writeConcernErrors'].filter((k) => e[k])) {
      const seen = error[of] instanceof Map ? Object.fromEntries(error[of]) : error[of];
      if (Object.keys(seen).length !== Object.keys(e[of]).length) miss(name, `${of}: ${show(seen)}`);
      for (const [i, wanted] of Object.entries(e[of])) match(wanted, plain(seen[i]), this, `${name}.${of}.${i}`, true);
    }
  }

  async close() {
    for (const name of this.failPoints) await this.internal.db('admin').command({ configureFailPoint: name, mode: 'off' }).catch(() => {});
    for (const of of this.opened.reverse()) await of.close().catch(() => {});
  }
}

// counts reads the getters of a result.
const counts = (r) => Object.fromEntries(['insertedCount', 'matchedCount', 'modifiedCount', 'deletedCount', 'upsertedCount', 'insertedIds', 'upsertedIds'].filter((k) => r[k] !== undefined).map((k) => [k, r[k]]));

module.exports = { Context };
