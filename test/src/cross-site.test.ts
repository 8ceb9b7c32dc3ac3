import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { allRoutes, type HttpClient } from "@diskmesh/director/testing";
import { programOnPath } from "@diskmesh/process-cpi";
import { leaveToVerify, skipBecause } from "@diskmesh/testkit";
import { expect } from "chai";
import { type Browser, chromium, type Page } from "playwright-core";
import { logIn } from "./browser-login.js";
import { ADMIN, wholeFleet } from "./mesh/fleets.js";
import { TestMesh } from "./mesh/test-mesh.js";

const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
/** Content types that browsers send to other sites without a preflight, no type at all, and the types of the routes. */
const TYPES = [
  "text/plain",
  "application/x-www-form-urlencoded",
  "multipart/form-data",
  "",
  "application/json",
  "text/yaml",
];
/** A cpi config with which a program of the attacker would run. */
const BODY = JSON.stringify({
  type: "cpi",
  name: "default",
  content: "cpis: [{name: x, type: x, exec_path: /bin/sh}]",
});

/** Timeout in ms, longer than a page takes on any machine. */
const PATIENCE_MS = 120_000;

interface Answered {
  readonly what: string;
  readonly status: number;
}

/** A real browser, logged in by Basic and by the page's form, opens a page of another site. */
describe("a page of another site in a browser", function () {
  this.timeout(600_000);
  let mesh: TestMesh;
  let browser: Browser;
  let elsewhere: Server;
  let page: Page;
  let http: HttpClient;
  let address: string;
  const answered: Answered[] = [];

  before(async function () {
    leaveToVerify(this);
    const executablePath = programOnPath("chromium");
    if (executablePath === undefined) skipBecause(this, "chromium is not on PATH");
    mesh = await TestMesh.start(wholeFleet({ hosts: 0, devicesPerHost: 0, deviceSizeBytes: 0, httpUsers: ADMIN }));
    http = mesh.http();
    address = `https://127.0.0.1:${http.port}`;
    const { certFile, keyFile } = mesh.certificates.files("director");
    elsewhere = createServer({ cert: readFileSync(certFile), key: readFileSync(keyFile) }, (_request, response) =>
      response.setHeader("content-type", "text/html").end("<!doctype html><title>elsewhere</title>"),
    );
    await new Promise<void>((resolve) => elsewhere.listen(0, "127.0.0.1", resolve));
    // Chromium's sandbox does not work for root, and tests may run as root.
    browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
    const httpCredentials = { username: "admin", password: "pw-admin" };
    page = await loggedIn(await browser.newContext({ ignoreHTTPSErrors: true, httpCredentials }));
  });
  after(async () => {
    await browser?.close();
    elsewhere?.close();
    await mesh?.[Symbol.asyncDispose]();
  });

  /** Opens a page that is logged in in both ways, and records each answer of the director. */
  async function loggedIn(context: Awaited<ReturnType<Browser["newContext"]>>): Promise<Page> {
    context.setDefaultTimeout(PATIENCE_MS);
    const opened = await context.newPage();
    await opened.goto(`${address}/tasks`);
    expect(await opened.textContent("body")).to.match(/^\[/);
    await opened.goto(`${address}/page`);
    await logIn(opened, "admin", "pw-admin");
    // The DevTools protocol also reports the status of answers that the page's scripts may not read.
    const session = await context.newCDPSession(opened);
    await session.send("Network.enable");
    const asked = new Map<string, string>();
    session.on("Network.requestWillBeSent", ({ requestId, request: { method, url, headers } }) =>
      asked.set(requestId, `${method} ${url} ${headers["Content-Type"] ?? ""}`),
    );
    session.on("Network.responseReceived", ({ requestId, response: { url, status } }) => {
      if (url.startsWith(address)) answered.push({ what: asked.get(requestId) ?? url, status });
    });
    return opened;
  }

  const state = async (): Promise<unknown[]> => [
    await http.json("/configs"),
    await http.json("/tasks?limit=100"),
    await http.json("/resurrection"),
  ];
  const audited = (): number => mesh.process("director").logs.split('"audit":"call"').length;

  it("is logged in by the login that the browser keeps", async () => {
    await page.goto(`${address}/tasks`);
    expect(await page.textContent("body")).to.match(/^\[/);
    expect(await page.evaluate(() => fetch("/page/session").then(({ status }) => status))).to.equal(200);
  });

  for (const [site, host] of [
    ["cross-site", "localhost"],
    ["same-site, of another port", "127.0.0.1"],
  ] as const)
    it(`${site}: a request to every route, and every kind of request to one, is refused and changes nothing`, async () => {
      const [stateBefore, auditedBefore] = [await state(), audited()];
      await page.goto(`https://${host}:${(elsewhere.address() as AddressInfo).port}/`);
      answered.length = 0;
      const refused = allRoutes.filter(({ isLinkable }) => !isLinkable);
      const paths = [...new Set(refused.map(({ path }) => path.replace(/:[a-z]+/g, "x")))];
      // All routes are behind one check, which the director's test of browsers gives every route's request.
      const requests = [
        ...paths.map((path) => ({ path, method: "POST", type: "text/plain" })),
        ...METHODS.flatMap((method) => TYPES.map((type) => ({ path: "/configs", method, type }))),
      ];
      await page.evaluate(
        async ({ address, requests, body }) => {
          const sent = requests.map(({ path, method, type }) => {
            const hasBody = method !== "GET" && method !== "HEAD";
            const headers: Record<string, string> = type === "" ? {} : { "content-type": type };
            // A blob without a type is sent without a content type.
            const content = type === "" ? new Blob([body]) : body;
            const init = { method, headers, credentials: "include" as const, ...(hasBody && { body: content }) };
            const isSimple = ["GET", "HEAD", "POST"].includes(method) && /^$|plain|form/.test(type);
            return fetch(`${address}${path}`, { ...init, mode: isSimple ? "no-cors" : "cors" }).catch(() => {});
          });
          await Promise.all(sent);
        },
        { address, requests, body: BODY },
      );
      expect(answered.length).to.be.above(paths.length);
      expect(answered.filter(({ status }) => status !== 403)).to.deep.equal([]);
      expect(await state()).to.deep.equal(stateBefore);
      expect(audited()).to.equal(auditedBefore);
    });

  it("submits a form that parses as JSON, gets 403, and stores no cpi config", async () => {
    await page.goto(`https://localhost:${(elsewhere.address() as AddressInfo).port}/`);
    const form = `<form method="post" enctype="text/plain" action="${address}/configs"><input name='${BODY.slice(0, -1)},"x":"' value='"}'></form>`;
    await page.setContent(form);
    const [answer] = await Promise.all([
      page.waitForResponse(`${address}/configs`),
      // Waits for the navigation, because the next test navigates as well.
      page.waitForURL(`${address}/configs`),
      page.evaluate("document.forms[0].submit()"),
    ]);
    expect(answer.status()).to.equal(403);
    expect(await http.json("/configs?type=cpi")).to.deep.equal([]);
  });

  it("links to the director's page, which opens logged in", async () => {
    await page.goto(`https://localhost:${(elsewhere.address() as AddressInfo).port}/`);
    await page.setContent(`<a href="${address}/page">look</a>`);
    await page.getByRole("link").click();
    await page.getByRole("button", { name: "Log out" }).waitFor();
  });

  it("shows the login form after a logout, although the browser keeps its Basic login", async () => {
    await page.getByRole("button", { name: "Log out" }).click();
    await page.getByLabel("Password").waitFor();
    expect(await page.context().cookies()).to.deep.equal([]);
  });
});
