export const f = async (a: number) => a;
abstract class A<T> {
  private b: string = "a";
  constructor() {}
  abstract m(): void;
}
interface I {
  a: string;
  m(x: number): void;
}
type T = { k: string };
enum E { A, B = 2 }
namespace N {
  export function g() {}
}
function ov(a: string): void;
