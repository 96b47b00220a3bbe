/**
 * Formulas in LaTeX as trees of MathML: the part of LaTeX that answers contain. Nothing is defined or expanded, so a
 * formula takes time in proportion to its text. Tags and attributes are of this file only; text becomes text.
 */

export type MathTag =
  | "mi" | "mn" | "mo" | "mtext" | "mspace" | "mrow" | "mfrac" | "msqrt" | "mroot" | "msub" | "msup" | "msubsup" | "munder" | "mover" | "munderover"
  | "mtable" | "mtr" | "mtd" | "mstyle" | "mphantom";

export interface MathNode {
  tag: MathTag;
  attributes: Attributes;
  c: (MathNode | string)[];
}

type Attributes = { [name: string]: string };

/** Longer formulas stay text. */
export const MAX_FORMULA = 4000;
/** Groups within groups; a formula that is deeper stays text. */
const MAX_DEPTH = 24;

/** Names and their characters, in turn. */
function pairs(text: string): Map<string, string> {
  const parts = text.split(/\s+/);
  return new Map(parts.flatMap((name, at): [string, string][] => (at % 2 === 0 ? [[name, parts[at + 1] ?? ""]] : [])));
}

/** Letters, in italics as variables are. */
const LETTERS = pairs(
  "alpha α beta β gamma γ delta δ epsilon ϵ varepsilon ε zeta ζ eta η theta θ vartheta ϑ iota ι kappa κ varkappa ϰ lambda λ mu μ nu ν xi ξ omicron ο pi π varpi ϖ rho ρ varrho ϱ sigma σ varsigma ς tau τ upsilon υ phi ϕ varphi φ chi χ psi ψ omega ω " +
  "partial ∂ ell ℓ imath ı jmath ȷ",
);
/** Letters and signs that stand upright. */
const UPRIGHT = pairs(
  "Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Upsilon Υ Phi Φ Psi Ψ Omega Ω infty ∞ nabla ∇ hbar ℏ Re ℜ Im ℑ aleph ℵ beth ℶ wp ℘ emptyset ∅ varnothing ∅ top ⊤ bot ⊥ angle ∠ triangle △ square □ Box □ blacksquare ■ diamond ⋄ star ⋆ checkmark ✓ qed □ sharp ♯ flat ♭ natural ♮ clubsuit ♣ diamondsuit ♢ heartsuit ♡ spadesuit ♠ surd √ mho ℧ eth ð pounds £ euro € yen ¥ copyright © textdegree ° degree ° S § P ¶ " +
  "dots … ldots … dotsc … cdots ⋯ dotsb ⋯ vdots ⋮ ddots ⋱ prime ′ backprime ‵ complement ∁ " +
  "$ $ % % # # & & _ _",
);
const OPERATORS = pairs(
  "pm ± mp ∓ times × div ÷ cdot ⋅ ast ∗ circ ∘ bullet ∙ oplus ⊕ ominus ⊖ otimes ⊗ oslash ⊘ odot ⊙ cup ∪ cap ∩ uplus ⊎ sqcup ⊔ sqcap ⊓ vee ∨ lor ∨ wedge ∧ land ∧ setminus ∖ smallsetminus ∖ wr ≀ amalg ⨿ ltimes ⋉ rtimes ⋊ bowtie ⋈ multimap ⊸ dagger † ddagger ‡ neg ¬ lnot ¬ forall ∀ exists ∃ nexists ∄ therefore ∴ because ∵ " +
  "le ≤ leq ≤ leqslant ⩽ ge ≥ geq ≥ geqslant ⩾ ne ≠ neq ≠ ll ≪ gg ≫ lt < gt > equiv ≡ sim ∼ simeq ≃ approx ≈ cong ≅ doteq ≐ propto ∝ prec ≺ preceq ⪯ succ ≻ succeq ⪰ perp ⊥ parallel ∥ nparallel ∦ mid ∣ nmid ∤ asymp ≍ lesssim ≲ gtrsim ≳ triangleq ≜ coloneqq ≔ coloneq ≔ eqqcolon ≕ vcentcolon : trianglelefteq ⊴ triangleright ▷ triangleleft ◁ nleq ≰ ngeq ≱ smile ⌣ frown ⌢ vdash ⊢ nvdash ⊬ Vdash ⊩ dashv ⊣ models ⊨ vDash ⊨ " +
  "in ∈ notin ∉ ni ∋ owns ∋ nsubseteq ⊈ supsetneq ⊋ subset ⊂ subseteq ⊆ subsetneq ⊊ supset ⊃ supseteq ⊇ sqsubseteq ⊑ sqsupseteq ⊒ " +
  "to → rightarrow → longrightarrow ⟶ leftarrow ← gets ← longleftarrow ⟵ leftrightarrow ↔ longleftrightarrow ⟷ Rightarrow ⇒ Longrightarrow ⟹ implies ⟹ Leftarrow ⇐ Longleftarrow ⟸ impliedby ⟸ Leftrightarrow ⇔ Longleftrightarrow ⟺ iff ⟺ mapsto ↦ longmapsto ⟼ uparrow ↑ downarrow ↓ updownarrow ↕ Uparrow ⇑ Downarrow ⇓ nearrow ↗ searrow ↘ swarrow ↙ nwarrow ↖ hookrightarrow ↪ hookleftarrow ↩ rightharpoonup ⇀ rightleftharpoons ⇌ twoheadrightarrow ↠ rightarrowtail ↣ leadsto ⇝ rightsquigarrow ⇝ colon :",
);
/** Operators whose scripts are above and below. */
const BIG = pairs("sum ∑ prod ∏ coprod ∐ bigcup ⋃ bigcap ⋂ bigvee ⋁ bigwedge ⋀ bigoplus ⨁ bigotimes ⨂ bigodot ⨀ biguplus ⨄ bigsqcup ⨆");
const INTEGRALS = pairs("int ∫ iint ∬ iiint ∭ oint ∮ oiint ∯");
const DELIMITERS = pairs("lbrace { rbrace } { { } } lbrack [ rbrack ] langle ⟨ rangle ⟩ lfloor ⌊ rfloor ⌋ lceil ⌈ rceil ⌉ lvert | rvert | vert | | ‖ lVert ‖ rVert ‖ Vert ‖ lgroup ⟮ rgroup ⟯ llbracket ⟦ rrbracket ⟧ backslash \\ uparrow ↑ downarrow ↓");
const FUNCTIONS = new Set("arccos arcsin arctan arg cos cosh cot coth csc deg dim exp hom ker lg ln log sec sin sinh tan tanh".split(" "));
const LIMITS = new Map([..."det gcd inf lim max min sup Pr".split(" ").map((name): [string, string] => [name, name]), ["limsup", "lim sup"], ["liminf", "lim inf"], ["argmax", "arg max"], ["argmin", "arg min"]]);
const ACCENTS = pairs("hat ^ widehat ^ check ˇ tilde ~ widetilde ~ bar ¯ overline ‾ vec → overrightarrow → overleftarrow ← dot ˙ ddot ¨ acute ´ grave ` breve ˘ mathring ˚ overbrace ⏞");
const BELOW = pairs("underline _ underbrace ⏟ underrightarrow →");
const WIDE = new Set(["widehat", "widetilde", "overline", "overrightarrow", "overleftarrow", "overbrace", "underline", "underbrace", "underrightarrow"]);
const SPACES = pairs("! -0.1667em , 0.1667em thinspace 0.1667em : 0.2222em > 0.2222em medspace 0.2222em ; 0.2778em thickspace 0.2778em quad 1em qquad 2em enspace 0.5em");
const FONTS = pairs("mathbb bb Bbb bb mathcal cal mathscr cal mathfrak frak mathbf bold boldsymbol bold bm bold mathsf sans mathtt mono mathrm normal mathnormal italic mathit italic");
/** Fonts of the rest of a group. */
const SWITCHES = pairs("rm normal bf bold it italic cal cal tt mono sf sans");
const TEXTS = new Set("text intertext textrm textbf textit texttt textsf textnormal mbox hbox emph".split(" "));
const SIZES = pairs("big 1.2em Big 1.6em bigg 2.1em Bigg 2.6em");
const FENCES: { [environment: string]: [string, string] } = { pmatrix: ["(", ")"], bmatrix: ["[", "]"], Bmatrix: ["{", "}"], vmatrix: ["|", "|"], Vmatrix: ["‖", "‖"], cases: ["{", ""], rcases: ["", "}"] };
const ALIGNED = new Set("align aligned alignat alignedat split eqnarray".split(" "));
const ENVIRONMENTS = new Set([...Object.keys(FENCES), ...ALIGNED, ..."matrix smallmatrix array gather gathered equation multline substack".split(" ")]);

/** The first of the capitals, small letters and digits of a font in Unicode. */
const ALPHABETS: { [font: string]: [number, number, number] } = {
  bold: [0x1d400, 0x1d41a, 0x1d7ce], bb: [0x1d538, 0x1d552, 0x1d7d8], cal: [0x1d49c, 0x1d4b6, 0], frak: [0x1d504, 0x1d51e, 0], sans: [0x1d5a0, 0x1d5ba, 0x1d7e2], mono: [0x1d670, 0x1d68a, 0x1d7f6],
};
/** Letters that Unicode had before it had these alphabets. */
const EARLIER = pairs("bbC ℂ bbH ℍ bbN ℕ bbP ℙ bbQ ℚ bbR ℝ bbZ ℤ calB ℬ calE ℰ calF ℱ calH ℋ calI ℐ calL ℒ calM ℳ calR ℛ cale ℯ calg ℊ calo ℴ frakC ℭ frakH ℌ frakI ℑ frakR ℜ frakZ ℨ");

function inFont(c: string, font: string): string {
  const known = EARLIER.get(font + c);
  const alphabet = Object.hasOwn(ALPHABETS, font) ? ALPHABETS[font] : undefined;
  if (known !== undefined || !alphabet) return known ?? c;
  const code = c.charCodeAt(0);
  const [first, start] = c >= "A" && c <= "Z" ? [alphabet[0], 65] : c >= "a" && c <= "z" ? [alphabet[1], 97] : c >= "0" && c <= "9" ? [alphabet[2], 48] : [0, 0];
  return first === 0 ? c : String.fromCodePoint(first + code - start);
}

const node = (tag: MathTag, c: (MathNode | string)[], attributes: Attributes = {}): MathNode => ({ tag, attributes, c });
const row = (c: MathNode[]): MathNode => (c.length === 1 && c[0] ? c[0] : node("mrow", c));
const operator = (text: string, attributes: Attributes = {}): MathNode => node("mo", [text], attributes);
const space = (width: string): MathNode => node("mspace", [], { width });
const delimiter = (text: string): MathNode => operator(text, { fence: "true", stretchy: "true" });
const asSource = (text: string): MathNode => node("mtext", [text], { class: "m-source" });

class TooDeep extends Error {}

const TOKEN = /\\(?:[A-Za-z]+|[^])|\d+(?:\.\d+)?|\s+|[^]/y;
const STARRED = new Set(["operatorname", "tag", "hspace"]);
const MARKS: { [c: string]: string } = { "-": "−", "*": "∗", "'": "′", "`": "‘" };

class FormulaReader {
  private at = 0;
  private depth = 0;
  private font = "";
  /** Counts of open groups, pairs and environments: only an open one can end. */
  private braces = 0;
  private lefts = 0;
  private environments = 0;
  private inCells = true;

  constructor(private text: string) {}

  /** Reads the whole formula. Its lines become rows of a table. */
  run(): MathNode {
    const cells = this.table();
    return cells.length === 1 && cells[0]?.length === 1 ? (cells[0][0] ?? node("mrow", [])) : table(cells, "m-align");
  }

  /** The next token, without taking it. White space has no meaning. */
  private peek(): string {
    for (;;) {
      TOKEN.lastIndex = this.at;
      const token = TOKEN.exec(this.text)?.[0] ?? "";
      if (token === "" || !/^\s/.test(token)) return token;
      this.at += token.length;
    }
  }

  private next(): string {
    const token = this.peek();
    this.at += token.length;
    return token;
  }

  private match(pattern: RegExp): void {
    pattern.lastIndex = this.at;
    this.at += pattern.exec(this.text)?.[0].length ?? 0;
  }

  private skip(token: string): boolean {
    const is = this.peek() === token;
    if (is) this.at += token.length;
    return is;
  }

  private deeper<T>(read: () => T): T {
    this.depth += 1;
    if (this.depth > MAX_DEPTH) throw new TooDeep();
    const found = read();
    this.depth -= 1;
    return found;
  }

  private isEnd(token: string): boolean {
    switch (token) {
      case "":
        return true;
      case "}":
        return this.braces > 0;
      case "&":
      case "\\\\":
      case "\\cr":
        return this.inCells;
      case "\\end":
        return this.environments > 0;
      case "\\right":
      case "\\middle":
        return this.lefts > 0;
      default:
        return false;
    }
  }

  /** Nodes up to the end of a group, a cell or a pair, which is not taken. */
  private nodes(): MathNode[] {
    const found: MathNode[] = [];
    for (let token = this.peek(); !this.isEnd(token); token = this.peek()) {
      if (token === "\\displaystyle" || token === "\\textstyle") {
        this.next();
        found.push(node("mstyle", this.deeper(() => this.nodes()), { displaystyle: token === "\\displaystyle" ? "true" : "false" }));
      } else if (token === "\\limits" || token === "\\nolimits" || token === "&" || token === "\\\\" || token === "\\cr") this.next();
      else if (token === "\\over" || token === "\\choose") {
        this.next();
        const below = row(this.deeper(() => this.nodes()));
        const fraction = node("mfrac", [row(found), below], token === "\\over" ? {} : { linethickness: "0" });
        return token === "\\over" ? [fraction] : [delimiter("("), fraction, delimiter(")")];
      } else if (token === "}" || token === "\\end" || token === "\\right") found.push(asSource(this.next()));
      else {
        const base = token === "^" || token === "_" ? node("mrow", []) : this.atom();
        if (base) found.push(this.scripts(base));
      }
    }
    return found;
  }

  /** A base with what is above and below it. */
  private scripts(base: MathNode): MathNode {
    const below: MathNode[] = [];
    const above: MathNode[] = [];
    let isAround = base.attributes.movablelimits !== undefined || base.attributes.class === "m-brace";
    for (let token = this.peek(); ; token = this.peek()) {
      if (token === "\\limits" || token === "\\nolimits") isAround = this.next() === "\\limits";
      else if (token === "'") {
        let primes = "";
        while (this.skip("'")) primes += "′";
        above.push(operator(primes));
      } else if (token === "^" || token === "_") {
        this.next();
        (token === "^" ? above : below).push(this.argument());
      } else break;
    }
    const [sub, sup] = [row(below), row(above)];
    if (below.length > 0 && above.length > 0) return node(isAround ? "munderover" : "msubsup", [base, sub, sup]);
    if (below.length > 0) return node(isAround ? "munder" : "msub", [base, sub]);
    return above.length > 0 ? node(isAround ? "mover" : "msup", [base, sup]) : base;
  }

  /** Reads the argument of a command: a group, or the next atom. */
  private argument(): MathNode {
    const token = this.peek();
    if (token === "{") return this.group();
    if (this.isEnd(token) || token === "}" || token === "&" || token === "\\\\" || token === "\\end" || token === "\\right") return node("mrow", []);
    if (/^\d/.test(token)) {
      // One digit only.
      this.at += 1;
      return node("mn", [inFont(token[0] ?? "", this.font)]);
    }
    return this.deeper(() => this.atom()) ?? node("mrow", []);
  }

  private group(): MathNode {
    this.next();
    const { font, inCells: before } = this;
    this.inCells = false;
    this.braces += 1;
    const found = this.deeper(() => this.nodes());
    this.braces -= 1;
    this.inCells = before;
    this.font = font;
    this.skip("}");
    return row(found);
  }

  private inStyle(font: string): MathNode {
    const before = this.font;
    this.font = font;
    const found = this.argument();
    this.font = before;
    return found;
  }

  /** Reads a group without interpreting it. */
  private raw(): string {
    if (!this.skip("{")) return this.next();
    const from = this.at;
    for (let deep = 0; this.at < this.text.length; this.at += 1) {
      const c = this.text[this.at];
      if (c === "\\") this.at += 1;
      else if (c === "{") deep += 1;
      else if (c === "}" && deep-- === 0) break;
    }
    const text = this.text.slice(from, this.at);
    this.at = Math.min(this.text.length, this.at + 1);
    return text;
  }

  /** The words of a group: spaces and escaped signs become what they are. */
  private words(): string {
    return this.raw().replace(/\\([^A-Za-z])|~|^\s|\s$/g, (_, sign?: string) => (sign === undefined || " ,;:>".includes(sign) ? "\u00a0" : sign === "!" ? "" : sign));
  }

  /** Reads an optional argument in brackets. */
  private option(): string {
    if (this.peek() !== "[") return "";
    const end = this.text.indexOf("]", this.at);
    if (end < 0) return "";
    const text = this.text.slice(this.at + 1, end);
    this.at = end + 1;
    return text;
  }

  private atom(): MathNode | undefined {
    const token = this.peek();
    if (token === "{") return this.group();
    this.next();
    if (token.length > 1 && token.startsWith("\\")) return this.command(token.slice(1));
    if (token === "\\") return asSource(token);
    if (/^\d/.test(token)) return node("mn", [[...token].map((c) => inFont(c, this.font)).join("")]);
    if (/^\p{L}/u.test(token)) return node("mi", [inFont(token, this.font)], this.font === "normal" ? { mathvariant: "normal" } : {});
    if (token === "~") return space("0.25em");
    // A character of two halves is taken whole.
    if (/[\ud800-\udbff]/.test(token)) {
      this.at += 1;
      return node("mi", [this.text.slice(this.at - 2, this.at)]);
    }
    if ("()[]|".includes(token)) return operator(token, { stretchy: "false" });
    return operator(Object.hasOwn(MARKS, token) ? (MARKS[token] ?? token) : token);
  }

  private command(name: string): MathNode | undefined {
    const bold: Attributes = this.font === "bold" ? { class: "m-bold" } : {};
    const letter = LETTERS.get(name);
    if (letter !== undefined) return node("mi", [letter], bold);
    const upright = UPRIGHT.get(name);
    if (upright !== undefined) return node("mi", [upright], { mathvariant: "normal", ...bold });
    const delim = DELIMITERS.get(name);
    const sign = OPERATORS.get(name);
    if (sign !== undefined) return operator(sign);
    if (delim !== undefined) return operator(delim, { stretchy: "false" });
    const big = BIG.get(name);
    if (big !== undefined) return operator(big, { movablelimits: "true" });
    const integral = INTEGRALS.get(name);
    if (integral !== undefined) return operator(integral);
    if (FUNCTIONS.has(name)) return this.named(name);
    const limit = LIMITS.get(name);
    if (limit !== undefined) return operator(limit, { movablelimits: "true", form: "prefix", lspace: "0", rspace: "0.1667em" });
    const width = SPACES.get(name);
    if (width !== undefined) return space(width);
    if (/^\s/.test(name)) return space("0.25em");
    const rest = SWITCHES.get(name);
    if (rest !== undefined) {
      this.font = rest;
      return undefined;
    }
    const font = FONTS.get(name);
    if (font !== undefined) return this.inStyle(font);
    if (TEXTS.has(name)) return node("mtext", [this.words()], /bf$/.test(name) ? { class: "m-bold" } : /it$|emph/.test(name) ? { class: "m-italic" } : {});
    const accent = ACCENTS.get(name) ?? BELOW.get(name);
    if (accent !== undefined) {
      const mark = operator(accent, { stretchy: WIDE.has(name) ? "true" : "false" });
      return node(BELOW.has(name) ? "munder" : "mover", [this.argument(), mark], name.endsWith("brace") ? { class: "m-brace" } : { [BELOW.has(name) ? "accentunder" : "accent"]: "true" });
    }
    const size = SIZES.get(name.replace(/[lrm]$/, ""));
    if (size !== undefined) return operator(this.delimiter(), { fence: "true", stretchy: "true", symmetric: "true", minsize: size, maxsize: size });
    return this.built(name);
  }

  private built(name: string): MathNode | undefined {
    const isStarred = STARRED.has(name) && this.skip("*");
    switch (name) {
      case "frac":
        return node("mfrac", [this.argument(), this.argument()]);
      case "dfrac":
      case "cfrac":
      case "tfrac":
        return node("mstyle", [node("mfrac", [this.argument(), this.argument()])], { displaystyle: name === "tfrac" ? "false" : "true" });
      case "binom":
      case "dbinom":
      case "tbinom":
        return node("mrow", [delimiter("("), node("mfrac", [this.argument(), this.argument()], { linethickness: "0" }), delimiter(")")]);
      case "sqrt": {
        const index = this.option();
        const radicand = this.argument();
        if (index === "") return node("msqrt", [radicand]);
        return node("mroot", [radicand, this.deeper(() => new FormulaReader(index.slice(0, 40)).run())]);
      }
      case "overset":
      case "stackrel": {
        const above = this.argument();
        return node("mover", [this.argument(), above]);
      }
      case "underset": {
        const below = this.argument();
        return node("munder", [this.argument(), below]);
      }
      case "xrightarrow":
      case "xleftarrow": {
        const below = this.option();
        const arrow = operator(name === "xrightarrow" ? "→" : "←", { stretchy: "true" });
        const above = this.argument();
        return below === "" ? node("mover", [arrow, above]) : node("munderover", [arrow, node("mtext", [below]), above]);
      }
      case "operatorname": {
        const text = this.words();
        return isStarred ? operator(text, { movablelimits: "true", form: "prefix", lspace: "0", rspace: "0.1667em" }) : this.named(text);
      }
      case "left":
        return this.pair();
      case "begin":
        return this.environment();
      case "substack":
        return this.skip("{") ? this.rows("}", "substack") : undefined;
      case "not": {
        const denied = this.argument();
        const [text] = denied.c;
        return typeof text === "string" ? { ...denied, c: [`${text}\u0338`] } : denied;
      }
      case "pmod":
        return node("mrow", [space("0.5em"), operator("("), node("mi", ["mod"]), space("0.2em"), this.argument(), operator(")")]);
      case "bmod":
      case "mod":
        return operator("mod", { lspace: "0.2222em", rspace: "0.2222em" });
      case "tag":
        return node("mrow", [space("2em"), node("mtext", [`(${this.words()})`])]);
      case "boxed":
      case "fbox":
        return node("mrow", [this.argument()], { class: "m-box" });
      case "cancel":
      case "bcancel":
      case "xcancel":
        return node("mrow", [this.argument()], { class: "m-struck" });
      case "mathop":
      case "mathbin":
      case "mathrel":
      case "mathord":
      case "mathopen":
      case "mathclose":
      case "mathpunct":
      case "mathinner":
      case "ensuremath":
      case "smash":
        return this.argument();
      case "phantom":
      case "hphantom":
      case "vphantom":
        return node("mphantom", [this.argument()]);
      case "textcolor":
      case "colorbox":
        // Colours are the page's.
        this.raw();
        return this.argument();
      case "color":
      case "label":
      case "hspace":
      case "vspace":
        this.raw();
        return undefined;
      case "hline":
      case "nonumber":
      case "notag":
      case "allowbreak":
      case "mathstrut":
      case "strut":
      case "hfill":
      case "scriptstyle":
      case "middle":
        return undefined;
      default:
        return asSource(`\\${name}`);
    }
  }

  /** The name of a function, with a space before what it is applied to. */
  private named(name: string): MathNode {
    const base = node("mi", [name], name.length === 1 ? { mathvariant: "normal" } : {});
    const whole = this.scripts(base);
    return /^(?:\(|\[|\{|\\left|\\bigl?|[)\]},^_]|$)/.test(this.peek()) ? whole : node("mrow", [whole, space("0.1667em")]);
  }

  /** A delimiter behind \left and the like; a full stop is none. */
  private delimiter(): string {
    const token = this.next();
    if (token === "." || token === "") return "";
    return token.startsWith("\\") ? (DELIMITERS.get(token.slice(1)) ?? "") : token === "<" ? "⟨" : token === ">" ? "⟩" : token.slice(0, 1);
  }

  private pair(): MathNode {
    const found: MathNode[] = [delimiter(this.delimiter())];
    const before = this.inCells;
    this.inCells = false;
    this.lefts += 1;
    this.deeper(() => {
      found.push(...this.nodes());
      while (this.skip("\\middle")) found.push(delimiter(this.delimiter()), ...this.nodes());
    });
    this.lefts -= 1;
    this.inCells = before;
    if (this.skip("\\right")) found.push(delimiter(this.delimiter()));
    return node("mrow", found.filter((each) => each.c[0] !== ""));
  }

  private environment(): MathNode {
    const name = this.raw();
    const plain = name.replace(/\*$/, "");
    if (!ENVIRONMENTS.has(plain)) return asSource(`\\begin{${name}}`);
    if (plain === "array" || plain.startsWith("aligneda") || plain === "alignat") this.raw();
    return this.rows("\\end", plain);
  }

  /** The rows of an environment, and its end. */
  private rows(end: "\\end" | "}", name: string): MathNode {
    const before = this.inCells;
    this.inCells = true;
    if (end === "}") this.braces += 1;
    else this.environments += 1;
    const found = this.deeper(() => this.table());
    if (end === "}") this.braces -= 1;
    else this.environments -= 1;
    this.inCells = before;
    if (this.skip(end) && end === "\\end") this.raw();
    const style = ALIGNED.has(name) ? "m-align" : name.endsWith("cases") ? "m-left" : name === "substack" || name === "smallmatrix" ? "m-tight" : "";
    const inner = table(found, style);
    const fences = Object.hasOwn(FENCES, name) ? FENCES[name] : undefined;
    if (!fences) return inner;
    return node("mrow", [...(fences[0] ? [delimiter(fences[0])] : []), inner, ...(fences[1] ? [delimiter(fences[1])] : [])]);
  }

  /** Cells up to an end, which is not taken. */
  private table(): MathNode[][] {
    const found: MathNode[][] = [];
    let cells: MathNode[] = [];
    let isEmpty = true;
    for (;;) {
      const cell = this.nodes();
      isEmpty &&= cell.length === 0;
      cells.push(row(cell));
      const token = this.peek();
      if (token === "&") this.next();
      else if (token === "\\\\" || token === "\\cr") {
        this.next();
        this.match(/\[-?[\d.]{1,8} ?[a-z]{2}\]/y);
        found.push(cells);
        cells = [];
        isEmpty = true;
      } else break;
    }
    if (!isEmpty || found.length === 0) found.push(cells);
    return found;
  }
}

function table(rows: MathNode[][], style: string): MathNode {
  const attributes: Attributes = style === "" ? {} : { class: style };
  if (style === "m-align") attributes.displaystyle = "true";
  return node("mtable", rows.map((cells) => node("mtr", cells.map((cell) => node("mtd", [cell])))), attributes);
}

/** The tree of a formula, or nothing if it is too long or too deep. */
export function formula(text: string): MathNode | undefined {
  if (text.length > MAX_FORMULA) return undefined;
  try {
    return new FormulaReader(text).run();
  } catch (error) {
    if (error instanceof TooDeep) return undefined;
    throw error;
  }
}

/** The words and signs of a tree, as they are drawn. */
export const formulaText = (tree: MathNode): string => tree.c.map((each) => (typeof each === "string" ? each : formulaText(each))).join("");
