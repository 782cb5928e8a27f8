# A Nix expression. It has not been run: vendorHash is to be replaced by what the first
# build reports.
#
#   nix-build scripts/packaging
{ pkgs ? import <nixpkgs> { } }:

pkgs.buildGoModule {
  pname = "tensorfs";
  version = "0.1.0";
  src = ../..;
  vendorHash = pkgs.lib.fakeHash;
  subPackages = [ "cmd/tensorfs" ];
  env.CGO_ENABLED = 0;
  ldflags = [ "-s" "-w" "-X main.release=0.1.0" ];
  doCheck = false; # the tests mount, which the sandbox does not allow

  nativeBuildInputs = [ pkgs.installShellFiles ];
  postInstall = ''
    go run -tags man -ldflags "-X main.release=0.1.0" ./cmd/tensorfs man1
    installManPage man1/*.1
    installShellCompletion --cmd tensorfs \
      --bash <($out/bin/tensorfs completion bash) \
      --zsh <($out/bin/tensorfs completion zsh) \
      --fish <($out/bin/tensorfs completion fish)
    ln -s tensorfs $out/bin/mount.tensorfs
  '';

  # An ordinary user's mount looks for fusermount3 in PATH: on NixOS,
  # programs.fuse.enable gives the one that is setuid.
  meta = {
    description = "Show the tensors of a model as files";
    homepage = "https://github.com/tensorfs/tensorfs";
    license = pkgs.lib.licenses.asl20;
    platforms = pkgs.lib.platforms.unix;
    mainProgram = "tensorfs";
  };
}
