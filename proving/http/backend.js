// The backend: it says what it was asked, and counts.
//   /hold        answers when somebody asks for /release
//   /count?of=X  how often /X was asked for
//   /bytes?n=N   N bytes, in pieces
const http = require('node:http');
const counts = {};
const held = [];

http.createServer((request, response) => {
  const url = new URL(request.url, 'http://backend');
  counts[url.pathname] = (counts[url.pathname] || 0) + 1;
  if (url.pathname === '/hold') return void held.push(response);
  if (url.pathname === '/release') held.splice(0).forEach((r) => r.end('released'));
  if (url.pathname === '/count') return void response.end(String(counts['/' + url.searchParams.get('of')] || 0));
  if (url.pathname === '/bytes') {
    let left = Number(url.searchParams.get('n'));
    const more = () => {
      if (left <= 0) return void response.end();
      const part = Math.min(left, 10000);
      left -= part;
      response.write('x'.repeat(part));
      setImmediate(more);
    };
    return void more();
  }
  let size = 0;
  request.on('data', (part) => { size += part.length; });
  request.on('end', () => response.end(JSON.stringify({ method: request.method, path: url.pathname, size })));
}).listen(Number(process.argv[2]), '127.0.0.1');
