import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { type HttpDirector, startHttpDirector } from "../testing/http-director.js";
import { basic, type RawPlace, rawAnswer, rawConnection } from "../testing/raw-request.js";

/** Changing requests; the handler refuses the last one with status 400. */
const CHANGES: readonly (readonly [method: string, path: string, body: (n: number) => string, status: number])[] = [
  ["POST", "/configs", (n) => JSON.stringify({ type: "mine", name: `n${n}`, content: `a: ${n}` }), 201],
  ["PUT", "/resurrection", () => '{"resurrection_paused":false}', 204],
  ["POST", "/page/tasks/1/cancel", () => '{"dry_run":true}', 200],
  ["POST", "/configs", () => '{"type":"cloud","name":"default","content":"azs: 7"}', 400],
];

describe("the audit line of a change over HTTPS", () => {
  let mesh: HttpDirector;
  let place: RawPlace;
  let count = 0;

  before(async () => {
    mesh = await startHttpDirector();
    await mesh.director.deploy("web", 1);
    place = { certs: mesh.director.certs, host: "127.0.0.1", port: mesh.http.port };
    // Fills the cache of password checks: a check takes longer than these clients stay connected.
    expect((await mesh.http.send("GET", "/tasks")).status).to.equal(200);
  });
  after(() => mesh?.director.stop());

  const linesOf = (requestId: string): readonly Readonly<Record<string, unknown>>[] =>
    mesh.director.process.logs
      .split("\n")
      .filter((line) => line.includes(`"requestId":"${requestId}"`) && line.includes('"audit":'))
      .map((line) => JSON.parse(line));

  function requestOf([method, path, bodyOf]: (typeof CHANGES)[number]): { bytes: string; requestId: string } {
    const [body, requestId] = [bodyOf(++count), `audited-${count}`];
    const head = `${method} ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: ${basic("admin:pw-admin")}\r\n`;
    const more = `X-Request-Id: ${requestId}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}`;
    return { bytes: `${head}${more}\r\n\r\n${body}`, requestId };
  }

  async function expectOneLine(requestId: string, ...statuses: number[]): Promise<void> {
    await eventually(() => expect(linesOf(requestId)).not.to.deep.equal([]));
    expect(linesOf(requestId)).to.have.length(1);
    const [line = {}] = linesOf(requestId);
    expect(line).to.include({ audit: "call" });
    expect(line.status).to.be.oneOf(statuses);
  }

  for (const change of CHANGES) {
    const [method, path, , status] = change;
    it(`${method} ${path} -> ${status}, followed by garbage: one audit line`, async () => {
      const { bytes, requestId } = requestOf(change);
      await rawAnswer(place, `${bytes}\0garbage\r\n\r\n`);
      // Status 499 (client gone) also passes: the garbage may close the connection before a worker has parsed the YAML
      // body.
      await expectOneLine(requestId, status, ...(path === "/configs" ? [499] : []));
    });

    it(`${method} ${path} -> ${status}, to a client that disconnects at once: one audit line`, async () => {
      const { bytes, requestId } = requestOf(change);
      const socket = await rawConnection(place);
      await new Promise((resolve) => socket.write(bytes, resolve));
      socket.destroy();
      // Status 499 (client gone): the client disconnected before the handler returned.
      await expectOneLine(requestId, status, 499);
    });
  }
});
