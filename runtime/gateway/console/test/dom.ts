/** As much of a document as preact draws into, for looking at what it would draw. */

export class FakeNode {
  childNodes: FakeNode[] = [];
  parentNode: FakeNode | null = null;
  ownerDocument: unknown;

  constructor(readonly nodeType: number, readonly localName: string, public data = "") {}

  get firstChild(): FakeNode | null {
    return this.childNodes[0] ?? null;
  }

  get nextSibling(): FakeNode | null {
    const siblings = this.parentNode?.childNodes ?? [];
    return siblings[siblings.indexOf(this) + 1] ?? null;
  }

  insertBefore(node: FakeNode, before: FakeNode | null): FakeNode {
    node.remove();
    const at = before ? this.childNodes.indexOf(before) : -1;
    if (at < 0) this.childNodes.push(node);
    else this.childNodes.splice(at, 0, node);
    node.parentNode = this;
    return node;
  }

  appendChild(node: FakeNode): FakeNode {
    return this.insertBefore(node, null);
  }

  removeChild(node: FakeNode): FakeNode {
    node.remove();
    return node;
  }

  remove(): void {
    const siblings = this.parentNode?.childNodes;
    if (siblings) siblings.splice(siblings.indexOf(this), 1);
    this.parentNode = null;
  }

  get text(): string {
    return this.nodeType === 3 ? this.data : this.childNodes.map((node) => node.text).join("");
  }
}

export class FakeElement extends FakeNode {
  attributes = new Map<string, unknown>();
  listeners: string[] = [];
  style = { setProperty: (name: string, value: string): void => void this.attributes.set(`style.${name}`, value), cssText: "" };

  constructor(readonly namespaceURI: string, name: string) {
    super(1, name);
    // What is set as a property in place of an attribute is seen as well.
    return new Proxy(this, {
      set: (target, key, value) => {
        const own = ["data", "childNodes", "parentNode", "ownerDocument", "attributes", "listeners"];
        if (typeof key === "string" && !own.includes(key) && /^[a-zA-Z]{3,}$/.test(key)) target.attributes.set(key, value);
        return Reflect.set(target, key, value, target);
      },
    });
  }

  setAttribute(name: string, value: unknown): void {
    this.attributes.set(name, value);
  }

  removeAttribute(name: string): void {
    this.attributes.delete(name);
  }

  addEventListener(name: string): void {
    this.listeners.push(name);
  }

  removeEventListener(): void {
    // Nothing is ever called.
  }

  get elements(): FakeElement[] {
    return this.childNodes.flatMap((node) => (node instanceof FakeElement ? [node, ...node.elements] : []));
  }
}

export const fakeDocument = {
  createElementNS: (space: string, name: string): FakeElement => {
    const element = new FakeElement(space, name);
    element.ownerDocument = fakeDocument;
    return element;
  },
  createElement: (name: string): FakeElement => fakeDocument.createElementNS("http://www.w3.org/1999/xhtml", name),
  createTextNode: (data: string): FakeNode => new FakeNode(3, "#text", data),
};
