module A
  # A thing.
  class B < C
    X = 1
    def m(a)
      local = 1
    end
    def self.s; end
  end
end
def top; end
