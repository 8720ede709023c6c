<?php
namespace A\B;
const X = 1;
class Foo extends Bar {
  const Y = 2;
  public int $p = 1;
  public function m($a) { $local = 1; }
}
interface I { function f(); }
trait T {}
enum Suit: string { case H = "h"; }
function f() {}
