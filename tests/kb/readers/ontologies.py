"""A small ontology of our own in OWL.

It was compared with files that rdflib, owlready2 and py-horned-owl wrote of it.
"""

from spacy_pel.kb import Entity

ENTITIES = [
    Entity("X:1", "demyelinating disease", types=("tiny",), sources=("X",)),
    Entity(
        "X:2",
        "multiple sclerosis",
        ("MS", "disseminated sclerosis"),
        ("other",),
        "A disease of myelin.",
        alt_ids=("X:9",),
        parents=("X:1",),
        retired_ids=("X:3",),
        xrefs=("ICD10CM:G35", "UMLS:C0026769"),
        sources=("X",),
    ),
]
OBO = "http://purl.obolibrary.org/obo/"
OBO_IN_OWL = "http://www.geneontology.org/formats/oboInOwl#"
HEAD = f"""<?xml version="1.0"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
     xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#"
     xmlns:owl="http://www.w3.org/2002/07/owl#"
     xmlns:skos="http://www.w3.org/2004/02/skos/core#"
     xmlns:obo="{OBO}" xmlns:oboInOwl="{OBO_IN_OWL}">
"""
ONTOLOGY = f"""<owl:Ontology rdf:about="{OBO}x.owl">
  <owl:versionIRI rdf:resource="{OBO}x/2026/x.owl"/>
</owl:Ontology>
"""
CLASSES = f"""<owl:ObjectProperty rdf:about="{OBO}BFO_0000050"><rdfs:label>part of</rdfs:label></owl:ObjectProperty>
<owl:Class rdf:about="{OBO}X_2">
  <oboInOwl:hasAlternativeId>X:9</oboInOwl:hasAlternativeId>
  <rdfs:label xml:lang="de">Multiple Sklerose</rdfs:label>
  <rdfs:label xml:lang="en">multiple sclerosis</rdfs:label>
  <rdfs:subClassOf rdf:resource="{OBO}X_1"/>
  <rdfs:subClassOf><owl:Restriction>
    <owl:onProperty rdf:resource="{OBO}BFO_0000050"/>
    <owl:someValuesFrom><owl:Class rdf:about="{OBO}X_4"/></owl:someValuesFrom>
  </owl:Restriction></rdfs:subClassOf>
  <obo:IAO_0000115>A disease of myelin.</obo:IAO_0000115>
  <oboInOwl:hasRelatedSynonym>disseminated sclerosis</oboInOwl:hasRelatedSynonym>
  <oboInOwl:hasExactSynonym xml:lang="en-US">MS</oboInOwl:hasExactSynonym>
  <oboInOwl:hasDbXref>ICD10CM:G35</oboInOwl:hasDbXref>
  <oboInOwl:hasDbXref rdf:resource="{OBO}UMLS_C0026769"/>
  <oboInOwl:hasOBONamespace>other</oboInOwl:hasOBONamespace>
</owl:Class>
<owl:Axiom><owl:annotatedSource rdf:resource="{OBO}X_2"/><rdfs:label>no class</rdfs:label></owl:Axiom>
<rdf:Description rdf:about="{OBO}X_1">
  <rdf:type rdf:resource="http://www.w3.org/2002/07/owl#Class"/>
  <oboInOwl:hasOBONamespace>tiny</oboInOwl:hasOBONamespace>
  <rdfs:label>demyelinating disease</rdfs:label>
</rdf:Description>
<owl:Class rdf:about="{OBO}X_3">
  <rdfs:label>obsolete insular sclerosis</rdfs:label>
  <owl:deprecated rdf:datatype="http://www.w3.org/2001/XMLSchema#boolean">true</owl:deprecated>
  <obo:IAO_0100001 rdf:resource="{OBO}X_2"/>
</owl:Class>
<owl:Class rdf:about="{OBO}X_4"/>
"""
OWL = f"{HEAD}{ONTOLOGY}{CLASSES}</rdf:RDF>\n"
