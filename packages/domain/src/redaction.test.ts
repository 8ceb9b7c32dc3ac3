import { createHash } from "node:crypto";
import { expect } from "chai";
import { REDACTED as R, Redactor, secretsNamedIn } from "./redaction.js";

const ODD = 'p"ss/wörd & <more>';
const base64 = (text: string) => Buffer.from(text).toString("base64");

describe("the redactor", () => {
  const redactor = new Redactor([
    { password: ODD, nested: { keys: ["line one\nline two\n", 987654] }, short: "ab", flag: true, url: "a+b/c==" },
  ]);
  const cases: readonly [form: string, given: string, shown: string][] = [
    ["raw", `login with ${ODD} now`, `login with ${R} now`],
    ["JSON", JSON.stringify({ password: ODD }), `{"password":"${R}"}`],
    ["JSON of Go", 'p\\"ss/wörd \\u0026 \\u003cmore\\u003e', R],
    ["JSON of Python", 'p\\"ss/w\\u00f6rd & <more>', R],
    ["JSON in JSON", JSON.stringify(JSON.stringify({ p: ODD })), `"{\\"p\\":\\"${R}\\"}"`],
    ["JSON of Go in JSON", 'p\\\\\\"ss/wörd \\\\u0026 \\\\u003cmore\\\\u003e', R],
    ["JSON with slashes", 'p\\"ss\\/wörd & <more>', R],
    ["XML", '<v>p"ss/wörd &amp; &lt;more&gt;</v>', `<v>${R}</v>`],
    ["XML of an attribute", 'v="p&quot;ss/wörd &amp; &lt;more&gt;"', `v="${R}"`],
    ["XML of Go", "p&#34;ss/wörd &amp; &lt;more&gt;", R],
    ["URL", `https://h/?p=${encodeURIComponent(ODD)}&q`, `https://h/?p=${R}&q`],
    ["URL, small", encodeURIComponent(ODD).replace(/%../g, (code) => code.toLowerCase()), R],
    ["form", new URLSearchParams({ p: ODD, q: "" }).toString(), `p=${R}&q=`],
    ["Base64", `key ${base64(ODD)} end`, `key ${R} end`],
    ["Base64 for URLs", Buffer.from(ODD).toString("base64url"), R],
    ["Base64 of a line", base64(`${ODD}\n`), R],
    ["Base64 after one byte", base64(`a${ODD}`), `YX${R}`],
    ["Base64 after a user's name", base64(`me:${ODD}:x`), `bWU6${R}`],
    ["a line of several", "got line two!", `got ${R}!`],
    ["all lines in JSON", "line one\\nline two", `${R}\\n${R}`],
    ["number", "account 987654", `account ${R}`],
    ["number in Base64", base64("987654"), R],
    ["with signs", "a+b/c== a b", `${R} a b`],
    ["too short", "ab is true of null", "ab is true of null"],
    ["nothing of it", "nothing here", "nothing here"],
  ];
  for (const [form, given, shown] of cases)
    it(`${form}: ${given} -> ${shown}`, () => {
      expect(redactor.text(given)).to.equal(shown);
    });

  it("redacts the beginning of a secret where a text was truncated", () => {
    const BEGINNINGS: [given: string, shown: string][] = [
      ["login with line o", `login with ${R}`],
      ["line line on", `line ${R}`],
      ["login with line one", `login with ${R}`],
      [`key ${base64(ODD).slice(0, 12)}`, `key ${R}`],
      ["two &quot; p&quot;ss", `two &quot; ${R}`],
      ["lin", "lin"],
      ["login", "login"],
      ["", ""],
    ];
    for (const [given, shown] of BEGINNINGS) expect(redactor.beginning(given), given).to.equal(shown);
    expect(new Redactor(["aaaaaab"]).beginning("xaaaaaaaa")).to.equal(`xaa${R}`);
    expect(new Redactor([]).beginning("line o")).to.equal("line o");
  });

  it("redacts each line of the certificates of all authorities of a machine, quickly", () => {
    const line = (at: number) => createHash("sha384").update(String(at)).digest("base64");
    const lines = Array.from({ length: 4_000 }, (_, at) => line(at));
    const many = new Redactor([{ ca: `-----BEGIN-----\n${lines.join("\n")}\n` }]);
    expect(many.text(lines.join(" "))).to.equal(lines.map(() => R).join(" "));
    const text = "certificate of nobody\n".repeat(20_000);
    expect(many.text(text)).to.equal(text);
  });

  it("redacts the longer of two overlapping secrets", () => {
    expect(new Redactor([["secret", "secret-and-more"]]).text("secret-and-more, secret")).to.equal(`${R}, ${R}`);
  });

  it("changes nothing without secrets", () => {
    for (const none of [[], [{}], ["ab", null, true, 7]])
      expect(new Redactor(none).text("ab 7 a.b")).to.equal("ab 7 a.b");
    expect(new Redactor([["a.b*"]]).text("a.b* axb*")).to.equal(`${R} axb*`);
  });

  it("accepts half a surrogate pair", () => {
    expect(new Redactor(["half \ud800"]).text("half \ud800!")).to.equal(`${R}!`);
  });

  it("redacts within values, by names as well, and keeps their shape", () => {
    expect(redactor.value({ "line two": [987654, 98765, null, true, { a: "line one!" }] })).to.deep.equal({
      [R]: [R, 98765, null, true, { a: `${R}!` }],
    });
  });

  it("is quick on long text that resembles Base64", () => {
    const text = "A".repeat(1_000_000);
    expect(redactor.text(text)).to.equal(text);
  });
});

describe("secrets by name", () => {
  it("are found at any depth, and as the password of a URL", () => {
    const config = {
      registry: { user: "u", password: "p1" },
      cpis: [{ name: "a", properties: { key: "p2", deep: ["p3"] } }],
      tablet: { storage: "mongodb://ann:p4@db-1:27017/?a=b" },
      urls: ["nats://u:p5@h", "nats://h", "no url: a:b@c"],
      port: 7,
    };
    expect(secretsNamedIn(config)).to.deep.equal(["p1", { key: "p2", deep: ["p3"] }, "p4", "p5"]);
  });
});
