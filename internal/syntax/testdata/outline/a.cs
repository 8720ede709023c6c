namespace N {
  /// Does it.
  public class C<T> : B {
    int x, y = 2;
    public int P { get; set; }
    public C() {}
    int M(int a) => a;
    enum Q { A, B }
    delegate void D(int x);
  }
  record R(int x);
  interface I { void F(); }
  struct S {}
}
