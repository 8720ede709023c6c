package p;

/** A thing. */
public class A<T> extends B {
  private int x, y = 2;
  public A() {}
  @Override public String m(int a) throws E { int local = 1; return ""; }
  enum Q { ONE, TWO }
  interface I { void f(); }
}
record R(int x) {}
@interface Ann { int value(); }
