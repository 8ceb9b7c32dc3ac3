import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { delimiter, join } from "node:path";
import { step } from "./progress.mjs";
import { Failure, findProgram, isExecutable, npmCommand, runQuietly } from "./run.mjs";

const INSTALL_TIMEOUT_MS = 10 * 60_000;
/** Debian's kernels for virtual machines, the preferred one first. Each depends on the package of one version. */
const KERNELS = ["linux-image-6.12-cloud-amd64", "linux-image-cloud-amd64"];
const LTS_VERSION = "26.12.1";

/**
 * Programs that tests start in addition to node, npm, git, sh and coreutils. A test whose program is missing is skipped
 * with the program's name. Only `npm run verify` installs the programs, and only where CI is set. `since` is the oldest
 * version with which the tests were run; an older version is used as well, but a test may fail.
 */
const TOOLS = [
  {
    name: "javac",
    since: "17",
    apt: "default-jdk-headless",
    why: "compiles the tests' MongoDB-compatible server, and a client of the protos",
    usedBy: "tests of MongoDB, clients in other languages",
  },
  {
    name: "mvn",
    since: "3.8",
    apt: "maven",
    why: "fetches that server and what the client needs",
    usedBy: "tests of MongoDB, clients in other languages",
  },
  {
    name: "qemu-io",
    since: "7.2",
    apt: "qemu-utils",
    why: "reads and writes exported disks as QEMU does",
    usedBy: "NBD, locks of device files",
  },
  {
    name: "qemu-system-x86_64",
    since: "7.2",
    apt: "qemu-system-x86",
    why: "runs a kernel with device-mapper",
    usedBy: "test/src/vm",
  },
  { name: "modprobe", since: "30", apt: "kmod", why: "finds and loads its modules", usedBy: "test/src/vm" },
  { name: "dmsetup", since: "1.02", apt: "dmsetup", why: "makes devices there", usedBy: "test/src/vm" },
  { name: "wg", since: "1.0", apt: "wireguard-tools", why: "sets up WireGuard there", usedBy: "test/src/vm" },
  { name: "nft", since: "1.0", apt: "nftables", why: "keeps strangers off there", usedBy: "test/src/vm" },
  { name: "mkfs.xfs", since: "6.1", apt: "xfsprogs", why: "makes a file system there", usedBy: "test/src/vm" },
  { name: "mkfs.ext4", since: "1.47", apt: "e2fsprogs", why: "makes a file system there", usedBy: "test/src/vm" },
  { name: "fio", since: "3.33", apt: "fio", why: "reads back what a disk has acknowledged", usedBy: "moves" },
  { name: "nbdinfo", since: "1.14", apt: "libnbd-bin", why: "lists exported disks", usedBy: "NBD" },
  { name: "promtool", since: "2.42", apt: "prometheus", why: "evaluates the alerts", usedBy: "alerts" },
  { name: "systemd-analyze", since: "252", apt: "systemd", why: "checks the units", usedBy: "deploy/systemd" },
  { name: "udevadm", since: "252", apt: "udev", why: "applies udev rules", usedBy: "deploy/host" },
  { name: "lvm", since: "2.03", apt: "lvm2", why: "looks for volumes inside disks", usedBy: "deploy/host" },
  { name: "mdadm", since: "4.2", apt: "mdadm", why: "looks for arrays inside disks", usedBy: "deploy/host" },
  {
    name: "chromium",
    since: "156",
    apt: "chromium",
    why: "shows the page",
    usedBy: "the page, pictures",
  },
  {
    name: "faketime",
    since: "0.9.10",
    apt: "faketime",
    why: "gives a process another time",
    usedBy: "docs/operate",
  },
  { name: "zsh", since: "5.9", apt: "zsh", why: "presses Tab", usedBy: "the command's completion" },
  { name: "openssl", since: "3.0", apt: "openssl", why: "checks certificates", usedBy: "packages/pki" },
  {
    name: "python3",
    since: "3.11",
    apt: "python3",
    why: "locks files as other programs do",
    usedBy: "locks of device files",
  },
  {
    name: "grpcurl",
    since: "1.9",
    go: "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3",
    why: "calls services as operators do",
    usedBy: "reflection, docs",
  },
  {
    name: "csi-sanity",
    since: "5.6.0",
    go: "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity@v5.6.0",
    why: "tries every call of CSI's specification",
    usedBy: "the CSI driver",
  },
  {
    name: "nbdfuse",
    since: "1.14",
    apt: "libnbd-bin",
    why: "shows such a drive as a file",
    usedBy: "hung and failing drives",
  },
  {
    name: "nbdkit",
    since: "1.32",
    apt: "nbdkit",
    why: "serves a drive that fails or hangs",
    usedBy: "hung and failing drives",
  },
  {
    name: "baremetal",
    since: "6.3",
    pip: "python-ironicclient==6.3.0",
    why: "calls vendor methods as Ironic's users do",
    usedBy: "vendor passthru",
  },
  { name: "helm", since: "3.8", go: "helm.sh/helm/v3/cmd/helm@v3.22.0", why: "renders the chart", usedBy: "the chart" },
  {
    name: "kubernetes-validate",
    since: "1.37",
    pip: "kubernetes-validate==1.37.0",
    why: "has the schemas of Kubernetes",
    usedBy: "the chart",
  },
  { name: "go", since: "1.25", why: "builds clients of the protos and of /v1", usedBy: "clients in other languages" },
  {
    name: "python-grpc-tools-protoc",
    since: "1.85",
    pip: "grpcio-tools==1.85.1 grpcio-status==1.85.1",
    why: "makes a client of the protos",
    usedBy: "clients in other languages",
  },
  {
    // Program of the openstacksdk package: tests find the SDK's Python beside it.
    name: "openstack-inventory",
    since: "4.22",
    pip: "openstacksdk==4.22.0 oslotest==6.1.1 testtools==2.9.1",
    why: "calls vendor methods, and has functional tests",
    usedBy: "vendor passthru",
  },
  {
    name: "ansible-playbook",
    since: "2.19",
    pip: "ansible-core==2.19.14 openstacksdk==4.7.1",
    // Modules of ansible 12 do not work with openstacksdk 4.22.
    environment: "ansible",
    // One collection of the package ansible, which has 21,000 files, 211 MB.
    part: { of: "ansible==12.3.0", prefix: "ansible_collections/openstack/" },
    why: "lists nodes and calls vendor methods",
    usedBy: "vendor passthru",
  },
];

/**
 * Programs in the PATH of the bare run: the programs of a new machine, and the nats-server that every command installs.
 */
const BARE = ["npm", "npx", "git", "sh", "nats-server"];
/** Programs of Debian's coreutils; some may be missing on this machine. */
const COREUTILS =
  "arch b2sum base32 base64 basename basenc cat chcon chgrp chmod chown chroot cksum comm cp csplit cut date dd df dir dircolors dirname du echo env expand expr factor false fmt fold groups head hostid id install join link ln logname ls md5sum mkdir mkfifo mknod mktemp mv nice nl nohup nproc numfmt od paste pathchk pinky pr printenv printf ptx pwd readlink realpath rm rmdir runcon seq sha1sum sha224sum sha256sum sha384sum sha512sum shred shuf sleep sort split stat stdbuf stty sum sync tac tail tee test timeout touch tr true truncate tsort tty uname unexpand uniq unlink users vdir wc who whoami yes";

/** Creates the folder `path` with links to the programs of a new machine, and returns it. */
export function makeBarePath(path) {
  rmSync(path, { recursive: true, force: true });
  mkdirSync(path, { recursive: true });
  symlinkSync(process.execPath, join(path, "node"));
  for (const name of [...BARE, ...COREUTILS.split(" ")]) {
    const file = findProgram(name);
    if (file !== undefined) symlinkSync(file, join(path, name));
  }
  return path;
}

/** Installs missing tools, as far as this machine allows, and puts `folder`, which receives them, on PATH. */
export async function installTools(folder) {
  mkdirSync(folder, { recursive: true });
  process.env.PATH = [folder, process.env.PATH].join(delimiter);
  const missing = TOOLS.filter(({ name }) => findProgram(name) === undefined);
  await installByApt([...new Set(missing.flatMap(({ apt }) => apt ?? []))]);
  for (const { name, go } of missing) if (go !== undefined) await tried(name, () => installByGo(name, go, folder));
  for (const tool of missing) if (tool.pip !== undefined) await tried(tool.name, () => installByPip(tool, folder));
  await tried("a kernel", () => unpackKernel(join(folder, "..", "kernel")));
  const still = TOOLS.filter(({ name }) => findProgram(name) === undefined);
  for (const { name, since, why, usedBy } of still)
    console.log(`missing: ${name} ${since} or newer, which ${why}; used by: ${usedBy}`);
}

/**
 * Runs an installation. A failure is only printed, because the tests that need the program are skipped, and
 * .ci/allowed-skips decides whether that is allowed.
 */
async function tried(what, install) {
  await install().catch((error) => {
    if (!(error instanceof Failure)) throw error;
    console.log(`${what} cannot be installed: ${error.message}`);
  });
}

async function installByApt(packages) {
  const apt = process.getuid?.() === 0 ? findProgram("apt-get") : undefined;
  if (apt === undefined || packages.length === 0) return;
  const options = { env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" }, timeoutMs: INSTALL_TIMEOUT_MS };
  await tried(packages.join(", "), () =>
    step(`installing ${packages.join(", ")} (apt-get)`, async () => {
      await runQuietly(apt, ["update", "-qq"], options);
      await runQuietly(apt, ["install", "-yqq", "--no-install-recommends", ...packages], options);
    }),
  );
}

/** Unpacks the package of a kernel as `folder`, where test/src/vm finds it. Installs nothing into the system. */
async function unpackKernel(folder) {
  if (process.arch !== "x64" || findProgram("apt-get") === undefined || existsSync(folder)) return;
  const options = { timeoutMs: INSTALL_TIMEOUT_MS };
  const shown = KERNELS.map((name) => runQuietly("apt-cache", ["show", name], options).catch(() => ""));
  const [, name] = /^Depends: (linux-image-\S+)/m.exec((await Promise.all(shown)).join("\n")) ?? [];
  if (name === undefined) throw new Failure(`apt has none of ${KERNELS.join(", ")}`);
  const unpacked = `${folder}.new`;
  rmSync(unpacked, { recursive: true, force: true });
  mkdirSync(unpacked, { recursive: true });
  await step(`unpacking ${name} (apt-get download)`, async () => {
    await runQuietly("apt-get", ["download", "-qq", name], { ...options, cwd: unpacked });
    const [file] = readdirSync(unpacked);
    await runQuietly("dpkg-deb", ["-x", join(unpacked, file), unpacked], options);
    rmSync(join(unpacked, file));
    const [version] = readdirSync(join(unpacked, "lib/modules"));
    await runQuietly("depmod", ["-b", unpacked, version], options);
  });
  renameSync(unpacked, folder);
}

/**
 * Installs a newer LTS of Node below `folder`, and returns the path of its program; undefined when npm has none for
 * this machine.
 */
export async function installLtsNode(folder) {
  const name = `node-${process.platform}-${process.arch}`;
  const prefix = join(folder, `node-${LTS_VERSION}`);
  const program = join(prefix, "node_modules", name, "bin", "node");
  if (isExecutable(program)) return program;
  const [npm, ...npmArgs] = npmCommand();
  const install = ["install", "--prefix", prefix, "--no-save", "--no-audit", "--no-fund", `${name}@${LTS_VERSION}`];
  await tried(`Node ${LTS_VERSION}`, () =>
    step(`installing Node ${LTS_VERSION} (npm install ${name})`, () =>
      runQuietly(npm, [...npmArgs, ...install], { timeoutMs: INSTALL_TIMEOUT_MS }),
    ),
  );
  return isExecutable(program) ? program : undefined;
}

async function installByGo(name, module, folder) {
  const go = findProgram("go");
  if (go === undefined) return;
  const env = { ...process.env, GOBIN: folder };
  await step(`installing ${name} (go install ${module})`, () =>
    runQuietly(go, ["install", module], { env, timeoutMs: INSTALL_TIMEOUT_MS }),
  );
}

/** Unpacks what begins with a prefix of the only wheel in a folder, into the packages of the Python that runs it. */
const UNPACK_PART = `
import glob, sys, sysconfig, zipfile
wheel = zipfile.ZipFile(glob.glob(sys.argv[1] + "/*.whl")[0])
wheel.extractall(sysconfig.get_path("purelib"), [name for name in wheel.namelist() if name.startswith(sys.argv[2])])
`;

async function installByPip({ name, pip: requirement, environment: own = "python", part }, folder) {
  const system = findProgram("python3");
  if (system === undefined) return;
  const environment = join(folder, "..", own);
  const python = join(environment, "bin", "python3");
  const options = { timeoutMs: INSTALL_TIMEOUT_MS };
  const pip = (...args) => runQuietly(python, ["-m", "pip", "--quiet", ...args], options);
  await step(`installing ${name} (pip install ${requirement})`, async () => {
    await runQuietly(system, ["-m", "venv", environment], options);
    await pip("install", ...requirement.split(" "));
    if (part === undefined) return;
    const wheels = join(environment, "wheels");
    await pip("download", "--no-deps", "--dest", wheels, part.of);
    await runQuietly(python, ["-c", UNPACK_PART, wheels, part.prefix], options);
    rmSync(wheels, { recursive: true });
  });
  const made = join(environment, "bin", name);
  if (!readdirSync(folder).includes(name)) symlinkSync(made, join(folder, name));
}
