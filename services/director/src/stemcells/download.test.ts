import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { InvalidArgumentError, PermissionDeniedError, TimeoutError, UnavailableError } from "@diskmesh/domain";
import { expect } from "chai";
import { download, type Network, parseLocation } from "./download.js";
import { isPublicAddress } from "./public-address.js";

const LIMITS = {
  idleTimeoutMs: 20_000,
  downloadTimeoutMs: 60_000,
  allowPrivateAddresses: true,
  maxUploadBytes: 1_000,
};

describe("private and public addresses", () => {
  for (const address of [
    "127.0.0.1",
    "10.1.2.3",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",
    "224.0.0.1",
    "255.255.255.255",
    "198.18.0.1",
    "::1",
    "::",
    "fe80::1",
    "fd00::1",
    "ff02::1",
    "::ffff:10.0.0.1",
    "::ffff:8.8.8.8",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
    "2001:db8::1",
    "2001::1",
  ])
    it(`${address} -> private`, () => expect(isPublicAddress(address)).to.equal(false));
  for (const address of ["8.8.8.8", "172.15.0.1", "172.32.0.1", "100.63.0.1", "2606:4700::1111", "2a00:1450::5"])
    it(`${address} -> public`, () => expect(isPublicAddress(address)).to.equal(true));
});

describe("a stemcell's location", () => {
  for (const odd of [
    "",
    "x",
    "file:///etc/passwd",
    "ftp://h/x",
    "//h/x",
    "http://",
    "http://me:secret@h/x",
    `http://h/${"x".repeat(5_000)}`,
  ])
    it(`${odd.slice(0, 30)} -> refused, without quoting it`, () => {
      const told = expect(() => parseLocation(odd)).to.throw(InvalidArgumentError);
      if (odd.includes("secret")) told.and.not.match(/secret/);
    });
});

describe("a download", () => {
  let server: Server;
  let base: string;
  let listener: RequestListener;

  before(async () => {
    server = createServer((request, response) => listener(request, response));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  after(() => {
    server.closeAllConnections();
    server.close();
  });

  async function got(
    path: string,
    limits = {},
    signal = new AbortController().signal,
    through: { readonly base?: string; readonly network?: Network } = {},
  ): Promise<string> {
    const pieces: Buffer[] = [];
    const location = `${through.base ?? base}${path}`;
    for await (const piece of download(location, { ...LIMITS, ...limits }, signal, through.network)) pieces.push(piece);
    return Buffer.concat(pieces).toString();
  }

  async function failure(work: Promise<string>, type: new (...args: never[]) => Error, text: RegExp): Promise<void> {
    const error = await work.then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    expect(error).to.be.instanceOf(type);
    expect((error as Error).message)
      .to.match(text)
      .and.not.contain("signature");
  }

  it("of an existing file -> its bytes, after redirects, too", async () => {
    listener = ({ url = "" }, response) => {
      const left = Number(/^\/(\d)/.exec(url)?.[1]);
      if (left > 0) response.writeHead(302, { location: left % 2 ? `/${left - 1}` : `${base}/${left - 1}` }).end();
      else response.end("the bytes");
    };
    expect(await got("/0")).to.equal("the bytes");
    expect(await got("/5")).to.equal("the bytes");
    await failure(got("/6?signature"), UnavailableError, /redirects more than 5 times/);
  });

  it("by names and redirects -> from public addresses only, whatever the names resolve to", async () => {
    const port = new URL(base).port;
    const asked: string[] = [];
    const names: Readonly<Record<string, readonly string[]>> = {
      "public.test": ["127.0.0.1"],
      "private.test": ["127.0.0.2"],
      "both.test": ["127.0.0.1", "127.0.0.2"],
    };
    const network: Network = {
      isPublicAddress: (address) => address === "127.0.0.1",
      lookup: (name, _options, found) => {
        asked.push(name);
        const addresses = names[name]?.map((address) => ({ address, family: 4 }));
        found(addresses === undefined ? new Error("no such name") : null, addresses ?? []);
      },
    };
    const seen: string[] = [];
    listener = ({ url = "", headers }, response) => {
      seen.push(`${headers.host}${url}`);
      if (url.startsWith("/to/"))
        response.writeHead(302, { location: `http://${url.slice(4)}:${port}/x?signature` }).end();
      else response.end("the bytes");
    };
    const limits = { allowPrivateAddresses: false };
    const { signal } = new AbortController();
    const from = (host: string, path = "/x") => got(path, limits, signal, { base: `http://${host}:${port}`, network });
    expect(await from("public.test")).to.equal("the bytes");
    expect(await from("127.0.0.1", "/to/public.test")).to.equal("the bytes");
    expect(asked).to.deep.equal(["public.test", "public.test"]);
    seen.length = 0;
    for (const host of ["private.test", "both.test", "127.0.0.2"]) {
      await failure(from(host), PermissionDeniedError, /private address/);
      await failure(from("127.0.0.1", `/to/${host}`), PermissionDeniedError, /private address/);
      await failure(from("public.test", `/to/${host}`), PermissionDeniedError, /private address/);
    }
    // Only the redirecting hosts received requests.
    expect(seen.filter((each) => !each.includes("/to/"))).to.deep.equal([]);
    expect(seen).to.have.length(6);
  });

  it("of anything else -> an error with the host's status", async () => {
    listener = (_request, response) => void response.writeHead(404).end("signature");
    await failure(got("/x?signature"), UnavailableError, /answered with 404/);
    listener = (_request, response) => void response.writeHead(302, { location: "file:///etc/passwd" }).end();
    await failure(got("/x"), InvalidArgumentError, /not an http or https URL/);
    listener = (_request, response) => void response.writeHead(206).end("half");
    await failure(got("/x"), UnavailableError, /answered with 206/);
  });

  it("from a private address -> refused before any request, also by a name", async () => {
    let asked = 0;
    listener = (_request, response) => {
      asked += 1;
      response.end();
    };
    const closed = { allowPrivateAddresses: false };
    await failure(got("/x", closed), PermissionDeniedError, /is at a private address/);
    base = base.replace("127.0.0.1", "localhost");
    await failure(got("/x", closed), PermissionDeniedError, /localhost is at a private address/);
    base = base.replace("localhost", "2130706433");
    await failure(got("/x", closed), PermissionDeniedError, /is at a private address/);
    base = base.replace("2130706433", "127.0.0.1");
    expect(asked).to.equal(0);
  });

  it("that breaks off, stalls, takes too long or is cancelled -> ends", async () => {
    listener = (_request, response) => {
      response.writeHead(200, { "content-length": "100" }).write("begun", () => response.socket?.destroy());
    };
    await failure(got("/x"), UnavailableError, /cannot be downloaded from/);
    listener = () => {};
    await failure(got("/x", { idleTimeoutMs: 50 }), TimeoutError, /no data arrived .* for 50 ms/);
    listener = (_request, response) => void response.writeHead(200).write("begun");
    await failure(got("/x", { idleTimeoutMs: 50 }), TimeoutError, /no data arrived .* for 50 ms/);
    await failure(got("/x", { downloadTimeoutMs: 50 }), TimeoutError, /took longer than 50 ms/);
    const stop = new AbortController();
    const stopped = got("/x", {}, stop.signal);
    stop.abort(new UnavailableError("stopped"));
    await failure(stopped, UnavailableError, /^stopped$/);
  });
});
