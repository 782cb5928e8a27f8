# A formula for Homebrew, which has not been run. scripts/release fills in the version and
# the checksum of the archive of sources that it makes beside it.
class Tensorfs < Formula
  desc "Show the tensors of a model as files"
  homepage "https://github.com/tensorfs/tensorfs"
  url "https://github.com/tensorfs/tensorfs/releases/download/@TAG@/@SOURCE@"
  version "@VERSION@"
  sha256 "@SHA256@"
  license "Apache-2.0"
  head "https://github.com/tensorfs/tensorfs.git", branch: "main"

  depends_on "go" => :build

  # Mounts of ordinary users need fuse3 on Linux. On macOS they are NFS, which needs nothing.
  def install
    ENV["CGO_ENABLED"] = "0"
    ldflags = "-s -w -X main.release=#{version} -X main.commit=@COMMIT@ -X main.date=@DATE@"
    system "go", "build", *std_go_args(ldflags: ldflags), "./cmd/tensorfs"
    generate_completions_from_executable(bin/"tensorfs", "completion", shells: [:bash, :zsh, :fish])
    system "go", "run", "-tags", "man", "-ldflags", ldflags, "./cmd/tensorfs", man1
    system "scripts/build-capi", "--prefix", prefix
    pkgshare.install "testdata/gguf/kv.gguf"
  end

  test do
    assert_match "tensorfs #{version}", shell_output("#{bin}/tensorfs --version")
    assert_match "index.json", shell_output("#{bin}/tensorfs ls #{pkgshare}/kv.gguf")
  end
end
