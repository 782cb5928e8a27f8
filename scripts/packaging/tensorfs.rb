# A formula for Homebrew. It has not been run, and there is no release yet: the address
# and the checksum are those of a release to come.
class Tensorfs < Formula
  desc "Show the tensors of a model as files"
  homepage "https://github.com/tensorfs/tensorfs"
  url "https://github.com/tensorfs/tensorfs/archive/refs/tags/v0.1.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license "Apache-2.0"
  head "https://github.com/tensorfs/tensorfs.git", branch: "main"

  depends_on "go" => :build

  # Mounts need macFUSE on macOS and fuse3 on Linux; the other commands need nothing.
  def install
    ENV["CGO_ENABLED"] = "0"
    ldflags = "-s -w -X main.release=#{version} -X main.date=#{time.iso8601}"
    system "go", "build", *std_go_args(ldflags: ldflags), "./cmd/tensorfs"
    generate_completions_from_executable(bin/"tensorfs", "completion", shells: [:bash, :zsh, :fish])
    system bin/"tensorfs", "man", man1
    system "scripts/build-capi", "--prefix", prefix
    pkgshare.install "testdata/gguf/kv.gguf"
  end

  test do
    assert_match "tensorfs #{version}", shell_output("#{bin}/tensorfs --version")
    assert_match "index.json", shell_output("#{bin}/tensorfs ls #{pkgshare}/kv.gguf")
  end
end
