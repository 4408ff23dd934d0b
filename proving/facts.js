// How a Node cell tells its facts.
let failed = false;
module.exports.fact = (what, holds, seen) => {
  if (!holds) failed = true;
  console.log(holds ? `ok ${what}` : `not ok ${what} - saw ${seen}`);
};
// main runs a cell and ends the process.
module.exports.main = (cell) =>
  cell().catch((e) => { failed = true; console.log('not ok', e); }).finally(() => process.exit(failed ? 1 : 0));
