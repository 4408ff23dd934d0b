// node-pg and its pool.
const { Client, Pool } = require('pg');

const url = (port, application) =>
  `postgres://driver:secret@127.0.0.1:${port}/app` + (application ? `?application_name=${application}` : '');
const { fact, main } = require('../facts.js');
const attempt = (promise) => promise.then(() => null, (error) => error);
const pid = async (client) => (await client.query('select pg_backend_pid() as pid')).rows[0].pid;

// Where the partition is full, its process is asked for behind a change of name.
async function pid2(client) {
  await client.query('set application_name = prove');
  const answer = await pid(client);
  await client.query('set application_name = full');
  return answer;
}

main(async () => {
  const client = new Client(url(process.env.GATE, 'prove'));
  await client.connect();
  const mine = await pid(client);
  const rows = await Promise.all([...Array(50).keys()].map((n) => client.query({ name: 'one', text: 'select $1::int as n', values: [n] })));
  fact('a named statement, 50 times, asked for at once', rows.every((r, n) => r.rows[0].n === n));
  await client.query('set application_name = full');
  const full = await attempt(client.query('select 1'));
  fact('a full partition is code 53000, with the document in detail', full?.code === '53000' && JSON.parse(full.detail).reason === 'concurrency_limit', full);
  const several = await attempt(client.query('select 1; select 2'));
  fact('several statements in one query are refused as one', several?.code === '53000', several);
  const prepared = await attempt(client.query({ name: 'two', text: 'select $1::int + 1 as n', values: [1] }));
  await client.query('set application_name = rated');
  const rated = await attempt(client.query('select 1'));
  fact('a spent rate is code 53400', rated?.code === '53400', rated);
  await client.query('set application_name = prove');
  fact('the connection is as good as before', (await pid(client)) === mine);
  const again = await client.query({ name: 'two', text: 'select $1::int + 1 as n', values: [1] });
  fact('a named statement that was refused when it was new works afterwards', prepared?.code === '53000' && again.rows[0].n === 2, prepared);
  await client.end();

  const pool = new Pool({ connectionString: url(process.env.GATE), max: 1 });
  const first = await pool.connect();
  const before = await pid(first);
  await first.query('set application_name = full');
  const direct = await attempt(first.query('select 1'));
  first.release();
  const checked = await pool.connect();
  fact('its pool keeps a connection that was refused while it was checked out', direct?.code === '53000' && (await pid2(checked)) === before, direct);
  checked.release();
  const error = await attempt(pool.query('select 1'));
  const second = await pool.connect();
  const after = await pid(second);
  fact('pool.query throws the connection away, as after any error', error?.code === '53000' && after !== before, `${error} ${before} ${after}`);
  second.release();
  await pool.end();

  const held = new Client(url(process.env.DOOR));
  await held.connect();
  const door = await attempt(new Client(url(process.env.DOOR)).connect());
  fact('a full door is code 53300', door?.code === '53300', door);
  await held.end();
});
