// How what was expected is compared with what was seen. Both are documents; what was seen has BSON's own number types.
const { BSON, Long } = require('mongodb');

class Mismatch extends Error {}
const miss = (path, what) => { throw new Mismatch(`${path}: ${what}`); };
const show = (v) => { try { return JSON.stringify(v)?.slice(0, 300); } catch { return String(v); } };

// plain turns a document of the driver into one of BSON types: nothing undefined, and numbers that know what they are.
function plain(value) {
  if (value === undefined || value === null || typeof value !== 'object') return value;
  const bytes = BSON.serialize({ v: sequences(value) }, { ignoreUndefined: true });
  return BSON.deserialize(bytes, { promoteValues: false }).v;
}

// sequences takes the documents out of a command's document sequences.
function sequences(value) {
  if (value?.constructor?.name === 'DocumentSequence') return value.documents;
  if (value?.constructor !== Object) return value;
  return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, sequences(v)]));
}

const numeric = (v) => typeof v === 'number' || typeof v === 'bigint' || ['Int32', 'Double', 'Long'].includes(v?._bsontype);
const number = (v) => (v?._bsontype === 'Long' ? v.toNumber() : Number(v?.valueOf()));
const isDocument = (v) => v !== null && typeof v === 'object' && !Array.isArray(v) && !v._bsontype && !(v instanceof Date);

function isOfType(v, type) {
  switch (type) {
    case 'int': return typeof v === 'number' ? Number.isInteger(v) : v?._bsontype === 'Int32';
    case 'long': return v?._bsontype === 'Long' || typeof v === 'bigint' || (typeof v === 'number' && Number.isInteger(v));
    case 'double': return typeof v === 'number' || v?._bsontype === 'Double';
    case 'number': return numeric(v);
    case 'string': return typeof v === 'string';
    case 'bool': return typeof v === 'boolean';
    case 'object': return isDocument(v);
    case 'array': return Array.isArray(v);
    case 'null': return v === null;
    case 'date': return v instanceof Date;
    case 'objectId': return v?._bsontype === 'ObjectId';
    case 'binData': return v?._bsontype === 'Binary' || v?._bsontype === 'UUID';
    case 'timestamp': return v?._bsontype === 'Timestamp';
    case 'decimal': return v?._bsontype === 'Decimal128';
    case 'regex': return v?._bsontype === 'BSONRegExp' || v instanceof RegExp;
    default: throw new Error(`no type ${type}`);
  }
}

// special compares by a $$operator.
function special(op, wanted, seen, present, ctx, path, root) {
  switch (op) {
    case '$$exists': return wanted === present || miss(path, wanted ? 'is missing' : `is there: ${show(seen)}`);
    case '$$unsetOrMatches': return !present || seen === null || seen === undefined || match(wanted, seen, ctx, path, root);
    case '$$type': return (present && [wanted].flat().some((t) => isOfType(seen, t))) || miss(path, `is no ${wanted}: ${show(seen)}`);
    case '$$matchesEntity': return match(ctx.entities.get(wanted), seen, ctx, path);
    case '$$matchesHexBytes': return Buffer.from(seen).toString('hex') === wanted || miss(path, 'other bytes');
    case '$$sessionLsid': return match(plain(ctx.lsid(wanted)), seen, ctx, path);
    case '$$matchAsDocument': return match(wanted, BSON.EJSON.parse(seen), ctx, path);
    case '$$matchAsRoot': return match(wanted, seen, ctx, path, true);
    case '$$lte': return number(seen) <= wanted || miss(path, `${show(seen)} is more than ${wanted}`);
    default: throw new Error(`no operator ${op}`);
  }
}

// What this driver says beyond what the tests expect: how long a commit may wait.
const MORE = ['.writeConcern.wtimeout'];

// match throws a Mismatch when seen is not as wanted. A root document may have more keys than are wanted.
function match(wanted, seen, ctx, path = '', root = false) {
  if (isDocument(wanted)) {
    const keys = Object.keys(wanted);
    if (keys.length === 1 && keys[0].startsWith('$$')) return special(keys[0], wanted[keys[0]], seen, seen !== undefined, ctx, path, root);
    if (!isDocument(seen)) miss(path, `is no document: ${show(seen)}`);
    for (const key of keys) {
      if (!(key in seen) && !Object.keys(wanted[key] ?? {})[0]?.startsWith('$$')) miss(`${path}.${key}`, 'is missing');
      match(wanted[key], seen[key], ctx, `${path}.${key}`);
    }
    const extra = root ? undefined : Object.keys(seen).find((key) => !(key in wanted) && seen[key] !== undefined && !MORE.some((m) => `${path}.${key}`.endsWith(m)));
    return extra === undefined || miss(`${path}.${extra}`, 'was not expected');
  }
  if (Array.isArray(wanted)) {
    if (!Array.isArray(seen) || seen.length !== wanted.length) miss(path, `is not of ${wanted.length}: ${show(seen)}`);
    return wanted.every((w, i) => match(w, seen[i], ctx, `${path}.${i}`, root));
  }
  if (numeric(wanted)) return (numeric(seen) && number(wanted) === number(seen)) || miss(path, `${show(seen)}, want ${show(wanted)}`);
  const same = wanted === seen || (wanted && seen && BSON.EJSON.stringify({ v: wanted }) === BSON.EJSON.stringify({ v: seen }));
  return same || miss(path, `${show(seen)}, want ${show(wanted)}`);
}

module.exports = { Mismatch, isDocument, Long, match, miss, plain, show };
