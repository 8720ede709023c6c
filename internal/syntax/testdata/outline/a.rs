use std::io;

/// A shape.
pub struct S<T> {
    pub a: T,
}

impl<T> Foo<T> for Bar {
    fn a(&self) -> i32 { 1 }
}
enum E { A(i32), B }
trait T { fn f(); type X; }
mod m { pub const X: i32 = 1; }
static Y: i32 = 2;
macro_rules! mac { () => {} }
fn main() {}
