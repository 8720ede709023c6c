/** Adds. */
export function add(a, b) { return a + b }
export default class A extends B {
  x = 1;
  m = () => 2;
  static async n(a) { const local = 1 }
  get p() { return 1 }
}
const f = async (a) => a, k = 2;
let y = function () {};
function* gen() {}
