# The formula for Homebrew on Linux. `packaging/finish` fills in what is between @ signs.
class Trunkline < Formula
  desc "Runs agents as child processes, with many sessions on each"
  homepage "@REPOSITORY@"
  version "@VERSION@"
  license any_of: ["Apache-2.0", "MIT"]

  depends_on :linux

  on_intel do
    url "@REPOSITORY@/releases/download/v@VERSION@/trunkline-x86_64-unknown-linux-musl.tar.gz"
    sha256 "@SHA256:x86_64-unknown-linux-musl@"
  end
  on_arm do
    url "@REPOSITORY@/releases/download/v@VERSION@/trunkline-aarch64-unknown-linux-musl.tar.gz"
    sha256 "@SHA256:aarch64-unknown-linux-musl@"
  end

  def install
    bin.install "trunkline", "trunkline-conformance"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/trunkline.bash" => "trunkline"
    zsh_completion.install "completions/_trunkline"
    fish_completion.install "completions/trunkline.fish"
    doc.install "THIRD-PARTY.txt"
  end

  service do
    run [opt_bin/"trunkline", "up"]
    keep_alive crashed: true
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/trunkline version")
    assert_match "hello", shell_output("#{bin}/trunkline run --no-daemon hello")
  end
end
