// How a Node cell tells its facts.
let failed = false;
module.exports.fact = (what, holds, seen) => {
  if (!holds) failed = true;
  console.log(holds ? `ok ${what}` : `not ok ${what} - saw ${seen}`);
};
// brisk tells one that is about speed, which is not judged on a busy machine.
module.exports.brisk = (what, holds, seen) => {
  const os = require('node:os');
  const load = os.loadavg()[0];
  if (holds || load < 3 * os.cpus().length) return module.exports.fact(what, holds, seen);
  console.log(`# not judged at a load of ${load}: ${what} - saw ${seen}`);
};
// main runs a cell and ends the process.
module.exports.main = (cell) =>
  cell().catch((e) => { failed = true; console.log('not ok', e); }).finally(() => process.exit(failed ? 1 : 0));
