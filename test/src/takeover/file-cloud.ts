import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/**
 * An infrastructure in a folder, shared by the CPIs of all dispatchers. Its CPI does not recognise a repeated creation,
 * so it creates another object. Each changing call marks its object as busy. A call that finds the object busy in
 * another process is a violation, as is a disk attached to two VMs.
 */
const SCRIPT = `#!/bin/sh
cloud=CLOUD
read -r request
method=\${request#*'"method":"'}; method=\${method%%'"'*}
args=\${request#*'"arguments":['}
first=\${args#'"'}; first=\${first%%'"'*}
second=\${args#*'","'}; second=\${second%%'"'*}
id=\${request#*'"request_id":"'}; id=\${id%%'"'*}
answer() { printf '{"result":%s,"error":null,"log":""}\\n' "$1"; exit 0; }
fail() { printf '{"result":null,"error":{"type":"Bosh::Clouds::%s","message":"%s","ok_to_retry":false},"log":""}\\n' "$1" "$first"; exit 0; }
change() {
  if ! mkdir "$cloud/busy/$1" 2> /dev/null; then
    other=; read -r other < "$cloud/busy/$1/pid"
    command=; [ -n "$other" ] && read -r command < "/proc/$other/cmdline"
    case $command in *"$0"*) echo "$method of $1 while process $other works on it" >> "$cloud/violations" ;; esac
  fi 2> /dev/null
  echo $$ > "$cloud/busy/$1/pid"
  echo "$method $1" >> "$cloud/begun"
  sleep 0.1
  while [ -e "$cloud/held/$method $1" ]; do sleep 0.05; done
}
changed() { rm -r "$cloud/busy/$1"; }
put() { echo "$2" > "$1.$$.new" && mv "$1.$$.new" "$1"; }
case $method in
info) answer '{"api_version":2,"stemcell_formats":["raw"],"needs_vm_spec":false}' ;;
create_vm) change "$first"; put "$cloud/vms/vm-$id" "$first"; changed "$first"; answer "[\\"vm-$id\\",{}]" ;;
has_vm) [ -e "$cloud/vms/$first" ] && answer true; answer false ;;
delete_vm) change "$first"; [ -e "$cloud/vms/$first" ] || fail VMNotFound; rm "$cloud/vms/$first"; changed "$first"; answer null ;;
create_disk) put "$cloud/disks/disk-$id" "$args"; answer "\\"disk-$id\\"" ;;
delete_disk) change "$first"; [ -e "$cloud/disks/$first" ] || fail DiskNotFound; rm "$cloud/disks/$first"; changed "$first"; answer null ;;
attach_disk) change "$second"
  on=; [ -e "$cloud/attached/$second" ] && read -r on < "$cloud/attached/$second"
  [ -z "$on" ] || [ "$on" = "$first" ] || echo "$second is attached to $on and $first" >> "$cloud/violations"
  put "$cloud/attached/$second" "$first"; changed "$second"; answer '"/dev/sdx"' ;;
detach_disk) change "$second"; [ -e "$cloud/attached/$second" ] || fail DiskNotAttached; rm "$cloud/attached/$second"; changed "$second"; answer null ;;
*) answer null ;;
esac
`;

const FOLDERS = ["vms", "disks", "attached", "busy", "held"];

/** Access of the test to that infrastructure. */
export class FileCloud {
  readonly execPath: string;

  constructor(private readonly folder: string) {
    for (const name of FOLDERS) mkdirSync(join(folder, name), { recursive: true });
    this.execPath = join(folder, "cpi");
    writeFileSync(this.execPath, SCRIPT.replace("CLOUD", folder));
    chmodSync(this.execPath, 0o755);
  }

  /** Returns agent ids by VM CID. */
  vms(): Map<string, string> {
    return this.#entries("vms");
  }

  /** Returns the arguments of each disk's creation as JSON, by disk CID. */
  disks(): Map<string, string> {
    return this.#entries("disks");
  }

  /** Returns VM CIDs by CID of the attached disk. */
  attached(): Map<string, string> {
    return this.#entries("attached");
  }

  /** Returns the changing calls that have begun, e.g. "delete_disk disk-1", in order. */
  begun(): string[] {
    return this.#lines("begun");
  }

  violations(): string[] {
    return this.#lines("violations");
  }

  /** Holds calls of this kind about this object until `release`. */
  hold(call: string): { release(): void } {
    const file = join(this.folder, "held", call);
    writeFileSync(file, "");
    return { release: () => rmSync(file, { force: true }) };
  }

  /** Returns the process id of the last call that marked an object as busy. */
  processOn(thing: string): number {
    return Number(readFileSync(join(this.folder, "busy", thing, "pid"), "utf8"));
  }

  #lines(name: string): string[] {
    const file = join(this.folder, name);
    return existsSync(file) ? readFileSync(file, "utf8").trimEnd().split("\n") : [];
  }

  #entries(name: string): Map<string, string> {
    const folder = join(this.folder, name);
    const found = readdirSync(folder).filter((entry) => !entry.endsWith(".new"));
    return new Map(found.flatMap((entry) => readIfThere(join(folder, entry)).map((text) => [entry, text])));
  }
}

/** The file may be deleted meanwhile. */
function readIfThere(file: string): string[] {
  try {
    return [readFileSync(file, "utf8").trimEnd()];
  } catch {
    return [];
  }
}
