from magpie.diagnostics.loc import Loc as Loc
