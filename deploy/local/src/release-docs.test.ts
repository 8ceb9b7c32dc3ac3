import { readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { expect } from "chai";

const repository = fileURLToPath(new URL("../../..", import.meta.url));

interface ReleaseDocs {
  readonly COPIES: Readonly<Record<string, string>>;
  archivedPages(root: string): readonly (readonly [place: string, page: string])[];
  archivedText(root: string, place: string, page: string, text: string): string;
  placeOf(root: string, path: string): string | undefined;
}

const releaseDocs = (): Promise<ReleaseDocs> => import(join(repository, "deploy/local/bootstrap/release-docs.mjs"));

describe("the pages of a release", () => {
  it("link to files that the archive has, and name its folders", async () => {
    const { COPIES, archivedPages, archivedText, placeOf } = await releaseDocs();
    const sourceOf = (path: string): string => {
      const [first = "", ...rest] = path.split("/");
      return join(COPIES[first] ?? "nowhere", ...rest);
    };
    const pages = archivedPages(repository);
    expect(pages.length).to.be.above(60);
    const dangling = pages.flatMap(([place, page]) => {
      const text = archivedText(repository, place, page, readFileSync(join(repository, page), "utf8"));
      const prose = text.replace(/^ *```.*?^ *```$/gms, "");
      const links = [...prose.matchAll(/\]\(([^)\s]+)\)/g), ...prose.matchAll(/(?:src|srcset)="([^"]+)"/g)];
      const targets = links
        .map(([, target = ""]) => target.split("#")[0] ?? "")
        .filter((target) => target !== "" && !/^[a-z]+:/.test(target))
        .map((target) => normalize(join(dirname(place), target)).replace(/\/$/, ""));
      const named = [...text.matchAll(/`(deploy\/(?:examples|monitoring|nats|helm|nomad|systemd)[\w./-]*)`/g)];
      return [
        ...targets.filter((target) => placeOf(repository, sourceOf(target)) !== target),
        ...named.map(([, path]) => path),
      ].map((target) => `${place}: ${target}`);
    });
    expect(dangling).to.deep.equal([]);
  });

  it("lose a link to a file that the archive lacks, but not its text, and keep code as it is", async () => {
    const { archivedText } = await releaseDocs();
    const text =
      "[how](../../RELEASING.md) `deploy/monitoring/alerts.yml` [a](../../deploy/example-driver/README.md#x)\n" +
      "```sh\nhelm install deploy/helm/diskmesh [how](../../RELEASING.md)\n```\n";
    expect(archivedText(repository, "docs/operate/upgrade.md", "docs/operate/upgrade.md", text)).to.equal(
      "how `monitoring/alerts.yml` [a](../../example-driver/README.md#x)\n```sh\nhelm install helm/diskmesh [how](../../RELEASING.md)\n```\n",
    );
  });
});
