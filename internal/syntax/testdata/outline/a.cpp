namespace n {
class C : public B {
 public:
  C();
  ~C() {}
  int m() const;
  int f_;
  static int s(int a) { return 1; }
  template <class T> void t(T x) {}
};
}
int n::C::m() const { return 1; }
using X = int;
template <class T> struct V { T x; };
enum class E { A };
