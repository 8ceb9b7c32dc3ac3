import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Detail } from "./detail.js";
import { Events } from "./events.js";
import { PLACES, type Place, useLocation, useStore, useTicks } from "./hooks.js";
import { LoginForm, LogOut, useSession } from "./login.js";
import { Disks, Hosts, Overview, type PlaceProps, Space, Tasks } from "./places.js";
import { type Store, store } from "./store.js";
import { clockText } from "./text.js";
import { attentionOf, countOf } from "./trouble.js";

const AGES_MS = 10_000;
/** Places whose lists can be searched. */
const LISTS: Partial<Record<Place, (props: PlaceProps) => preact.JSX.Element>> = {
  hosts: Hosts,
  disks: Disks,
  tasks: Tasks,
  space: Space,
};

/** Shows the page to logged-in users, and the login form to others. */
function Entrance() {
  const { name, failure } = useSession();
  useEffect(() => {
    if (name) void store.open();
  }, [name]);
  if (name === undefined) return null;
  return name === "" ? <LoginForm failure={failure} /> : <Page user={name} />;
}

function Page({ user }: { user: string }) {
  const known = useStore();
  const { place, placeHash, selection } = useLocation();
  const [filter, setFilter] = useState("");
  useTicks(AGES_MS);
  const isStale = known.heardAtMs > 0 && !known.isLive;
  useEffect(() => {
    document.body.classList.toggle("stale", isStale);
  }, [isStale]);
  const found = attentionOf(known);
  const count = countOf(found);
  useEffect(() => {
    const title = place === "overview" ? "diskmesh" : `${nameOf(place)} · diskmesh`;
    document.title = count === 0 ? title : `(${count}) ${title}`;
  }, [count, place]);
  useEffect(() => scrollTo(0, 0), [place]);
  const Lists = LISTS[place];
  return (
    <>
      <button type="button" class="skip" onClick={() => document.getElementById("main")?.focus()}>
        Skip to the content
      </button>
      <header class="top">
        <h1>diskmesh</h1>
        <nav aria-label="Places">
          {PLACES.map((each) => (
            <a key={each} href={`#${each}`} {...(each === place && { "aria-current": "page" as const })}>
              {nameOf(each)}
              {each === "overview" && count > 0 && (
                <span class="badge" role="img" aria-label={`${count} need attention`}>
                  {count}
                </span>
              )}
            </a>
          ))}
          <a href="/page/docs/README.md">Docs</a>
        </nav>
        {Lists && (
          <label class="find">
            <span class="soft">Find</span>
            <input type="search" value={filter} onInput={({ currentTarget }) => setFilter(currentTarget.value)} />
          </label>
        )}
        <Liveness known={known} isStale={isStale} />
        <LogOut name={user} />
      </header>
      <div class={selection ? "panes with-detail" : "panes"}>
        <main id="main" tabIndex={-1}>
          {place === "overview" && <Overview known={known} found={found} />}
          {place === "events" && <Events query={placeHash.slice("#events?".length)} />}
          {Lists && <Lists known={known} filter={filter} />}
        </main>
        {selection && (
          <Detail
            key={`${selection.kind} ${selection.name}`}
            selection={selection}
            store={known}
            closeHash={placeHash}
          />
        )}
      </div>
    </>
  );
}

function nameOf(place: Place): string {
  return place.charAt(0).toUpperCase() + place.slice(1);
}

function Liveness({ known, isStale }: { known: Store; isStale: boolean }) {
  if (known.heardAtMs === 0 && known.tables.source.size === 0) return <p class="liveness">connecting…</p>;
  if (known.heardAtMs === 0) return <p class="liveness trouble">Not live. Trying again.</p>;
  if (!isStale)
    return (
      <p class="liveness live">
        <span class="mark" aria-hidden="true" />
        live
      </p>
    );
  return (
    <p class="liveness trouble" role="alert">
      Not live: this is as of {clockText(known.heardAtMs)}. Trying again.
    </p>
  );
}

render(<Entrance />, document.getElementById("page") as HTMLElement);
