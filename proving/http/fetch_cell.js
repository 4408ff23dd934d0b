// Node's fetch, and undici's agent that retries.
const { RetryAgent, Agent, request } = require('undici');
const { fact, main } = require('../facts.js');
const { PLAIN, TLS, DIRECT, CERT } = process.env;
const count = async (of) => Number(await (await fetch(`${DIRECT}/count?of=${of}`)).text());

main(async () => {
  const refused = await fetch(`${PLAIN}/refused`, { headers: { 'X-Tenant': 'full' } });
  const document = await refused.json();
  fact('503 with the document and its wait', refused.status === 503 && document.reason === 'concurrency_limit' && Number(refused.headers.get('retry-after')) >= 1, refused.status);
  const up = await fetch(`${PLAIN}/up`, {
    method: 'POST', duplex: 'half',
    body: new ReadableStream({ start(c) { for (let n = 0; n < 50; n++) c.enqueue(new Uint8Array(20000)); c.close(); } }),
  });
  fact('a stream as a chunked body', (await up.json()).size === 1000000);
  const both = await Promise.all([...Array(200).keys()].map((n) => fetch(`${PLAIN}/many`, { headers: { 'X-Tenant': n % 2 ? 'full' : 'other' } }).then(async (r) => { await r.text(); return r.status; })));
  fact('refusals among 200 requests over a pool', both.every((s, n) => s === (n % 2 ? 503 : 200)), both);

  const h2 = new Agent({ allowH2: true, connect: { ca: require('node:fs').readFileSync(CERT) } });
  const over2 = await Promise.all([...Array(50).keys()].map(() => request(`${TLS}/many`, { dispatcher: h2 }).then(async (r) => { await r.body.text(); return r.statusCode; })));
  fact('50 requests with undici over HTTP/2', over2.every((s) => s === 200), over2);
  await h2.close();

  const agent = new RetryAgent(new Agent(), { statusCodes: [429, 503], minTimeout: 0, maxRetries: 3 });
  await fetch(`${PLAIN}/beat-undici`, { headers: { 'X-Tenant': 'beat-undici' } });
  const began = performance.now();
  const again = await request(`${PLAIN}/beat-undici`, { dispatcher: agent, headers: { 'X-Tenant': 'beat-undici' } });
  const took = performance.now() - began;
  fact("undici's RetryAgent waits as Retry-After says and gets through", again.statusCode === 200 && took >= 950 && (await count('beat-undici')) === 2, `${again.statusCode} after ${took}`);
});
