// What the tests can ask for: an operation of an entity, with the arguments of the tests in the driver's words.
const { GridFSBucket, ReadPreference } = require('mongodb');

class Unsupported extends Error {}

const preference = (p) => new ReadPreference(p.mode, p.tagSets, { maxStalenessSeconds: p.maxStalenessSeconds });

// options turns arguments into the driver's options: sessions by name, preferences as what they are.
function options(args, ctx, ...not) {
  const o = Object.fromEntries(Object.entries(args).filter(([k]) => !not.includes(k)));
  if (o.session) o.session = ctx.get(o.session);
  if (o.readPreference) o.readPreference = preference(o.readPreference);
  if (o.returnDocument) o.returnDocument = o.returnDocument.toLowerCase();
  return o;
}
// detailed turns the results of single writes into what the tests know of them.
const detailed = (map) => (map instanceof Map ? Object.fromEntries([...map].map(([i, { didUpsert, ...r }]) => [i, r])) : map);

const collection = {
  aggregate: (c, a, x) => c.aggregate(a.pipeline, options(a, x, 'pipeline')).toArray(),
  find: (c, a, x) => c.find(a.filter, options(a, x, 'filter')).toArray(),
  findOne: (c, a, x) => c.findOne(a.filter, options(a, x, 'filter')),
  distinct: (c, a, x) => c.distinct(a.fieldName, a.filter, options(a, x, 'fieldName', 'filter')),
  count: (c, a, x) => c.count(a.filter, options(a, x, 'filter')),
  countDocuments: (c, a, x) => c.countDocuments(a.filter, options(a, x, 'filter')),
  estimatedDocumentCount: (c, a, x) => c.estimatedDocumentCount(options(a, x)),
  insertOne: (c, a, x) => c.insertOne(a.document, options(a, x, 'document')),
  insertMany: (c, a, x) => c.insertMany(a.documents, options(a, x, 'documents')),
  deleteOne: (c, a, x) => c.deleteOne(a.filter, options(a, x, 'filter')),
  deleteMany: (c, a, x) => c.deleteMany(a.filter, options(a, x, 'filter')),
  replaceOne: (c, a, x) => c.replaceOne(a.filter, a.replacement, options(a, x, 'filter', 'replacement')),
  updateOne: (c, a, x) => c.updateOne(a.filter, a.update, options(a, x, 'filter', 'update')),
  updateMany: (c, a, x) => c.updateMany(a.filter, a.update, options(a, x, 'filter', 'update')),
  findOneAndDelete: (c, a, x) => c.findOneAndDelete(a.filter, options(a, x, 'filter')),
  findOneAndReplace: (c, a, x) => c.findOneAndReplace(a.filter, a.replacement, options(a, x, 'filter', 'replacement')),
  findOneAndUpdate: (c, a, x) => c.findOneAndUpdate(a.filter, a.update, options(a, x, 'filter', 'update')),
  bulkWrite: (c, a, x) => c.bulkWrite(a.requests, options(a, x, 'requests')),
  createIndex: (c, a, x) => c.createIndex(a.keys, options(a, x, 'keys')),
  dropIndex: (c, a, x) => c.dropIndex(a.name, options(a, x, 'name')),
  dropIndexes: (c, a, x) => c.dropIndexes(options(a, x)),
  listIndexes: (c, a, x) => c.listIndexes(options(a, x)).toArray(),
  listIndexNames: (c, a, x) => c.listIndexes(options(a, x)).toArray().then((all) => all.map((i) => i.name)),
};

const database = {
  aggregate: (d, a, x) => d.aggregate(a.pipeline, options(a, x, 'pipeline')).toArray(),
  runCommand: (d, a, x) => d.command(a.command, options(a, x, 'command', 'commandName')),
  listCollections: (d, a, x) => d.listCollections(a.filter, options(a, x, 'filter')).toArray(),
  listCollectionNames: (d, a, x) => d.listCollections(a.filter, { ...options(a, x, 'filter'), nameOnly: true }).toArray(),
  createCollection: (d, a, x) => d.createCollection(a.collection, options(a, x, 'collection')),
  dropCollection: (d, a, x) => d.dropCollection(a.collection, options(a, x, 'collection')),
  modifyCollection: (d, a) => d.command({ collMod: a.collection, ...options(a, null, 'collection') }),
};

const client = {
  listDatabases: (c, a, x) => c.db('admin').admin().listDatabases(options(a, x)).then((r) => r.databases),
  listDatabaseNames: (c, a, x) => c.db('admin').admin().listDatabases({ ...options(a, x), nameOnly: true }).then((r) => r.databases.map((d) => d.name)),
  clientBulkWrite: (c, a, x) => c.bulkWrite(a.models.map((m) => { const [[name, of]] = Object.entries(m); return { name, ...of }; }), options(a, x, 'models'))
    .then((r) => ({ ...results(r), insertResults: detailed(r.insertResults), updateResults: detailed(r.updateResults), deleteResults: detailed(r.deleteResults) })),
  close: (c) => c.close(),
};

const session = {
  startTransaction: (s, a, x) => s.startTransaction(options(a, x)),
  commitTransaction: (s) => s.commitTransaction(),
  abortTransaction: (s) => s.abortTransaction(),
  endSession: (s) => s.endSession(),
  withTransaction: (s, a, x) => s.withTransaction(() => x.callback(a.callback), options(a, x, 'callback')),
};

const read = async (stream) => { const all = []; for await (const part of stream) all.push(part); return Buffer.concat(all); };
const bucket = {
  download: (b, a) => read(b.openDownloadStream(a.id)),
  downloadByName: (b, a) => read(b.openDownloadStreamByName(a.filename, options(a, null, 'filename'))),
};

// watch opens a change stream as far as its first reply.
async function watch(on, a, x) {
  const stream = on.watch(a.pipeline, options(a, x, 'pipeline'));
  x.opened.push(stream);
  await stream.cursor.cursorInit();
  return stream;
}

// results takes what the tests know from what a write returned, which may have getters.
function results(r) {
  const keys = ['acknowledged', 'insertedId', 'insertedIds', 'insertedCount', 'matchedCount', 'modifiedCount', 'deletedCount', 'upsertedCount', 'upsertedId', 'upsertedIds'];
  return Object.fromEntries(keys.filter((k) => r[k] !== undefined).map((k) => [k, r[k]]));
}
const WRITES = ['insertOne', 'insertMany', 'deleteOne', 'deleteMany', 'replaceOne', 'updateOne', 'updateMany', 'bulkWrite'];

// perform carries out an operation of an entity and returns its result in the words of the tests.
async function perform(of, kind, { name, arguments: args = {} }, ctx) {
  if (name === 'createChangeStream') return watch(of, args, ctx);
  const run = { bucket, client, collection, database, session }[kind]?.[name];
  if (!run) throw new Unsupported(`${name} of a ${kind}`);
  const result = await run(of, args, ctx);
  return kind === 'collection' && WRITES.includes(name) && result ? results(result) : result;
}

module.exports = { GridFSBucket, Unsupported, perform, preference };
