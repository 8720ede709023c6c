package a.b

class Foo(val x: Int) : Bar() {
  companion object {
    const val Z = 1
  }
  fun run(a: Int): Int { val local = 1; return a }
  val y: String = "a"
}
enum class E { A, B }
object O
typealias T = Int
fun Foo.ext() {}
